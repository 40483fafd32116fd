"""Does the ansible-playbook live for which this works? In: what its worker says of it. Out: yes, or an error.

Knows no platform and no roll: on the controller alone, where a module can see that process."""
