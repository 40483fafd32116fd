"""The ansible-playbook of a module: does it still live, and what must it never show?

Knows no platform and no roll: on the controller alone, where a module can see that process."""
