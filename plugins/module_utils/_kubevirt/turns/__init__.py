"""When it is a drain's turn to ask for the next migrations, while others drain too.

`other_drains` reads how many VMs the other drains have left; `turns` says when to ask. It knows no
VM.
"""
