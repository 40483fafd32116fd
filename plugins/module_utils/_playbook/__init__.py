"""What a module has of its ansible-playbook: does it live for which this works, and what must it never show?

Knows no platform and no roll: on the controller alone, where a module can see that process."""
