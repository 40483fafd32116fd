"""Rules as data: the VM's document, its language, and rules made of plain data."""
