"""What `import torch` calls, by the entry point of the group `torch.backends`."""


def autoload() -> None:
    """Make the device known; nothing where it cannot be.

    An error here would be one of `import torch`. `systola.register_torch_device()` says what is
    wrong.
    """
    from sw.torch_device.register import install, obstacle

    if not obstacle():
        install()
