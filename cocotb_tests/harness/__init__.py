"""What runs inside the simulator on behalf of a device: register access and waiting."""
