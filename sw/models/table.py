"""The built-in networks by name, and where each is built. Importing this needs no PyTorch."""

from dataclasses import dataclass

SEED = 2026


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkSpec:
    """A network: `shape` of one sample and its result, for people; exact `macs` of one sample.

    builder: module and function that returns a `Prepared` for a seed. runs: how many samples
    `systola run` takes where none are asked for. logits: whether outputs are scores of classes.
    """

    name: str
    shape: str
    macs: int
    builder: tuple[str, str]
    seed: int = SEED
    runs: int = 2
    logits: bool = True


def _network(name: str, shape: str, macs: int, file: str, logits: bool = True) -> NetworkSpec:
    builder = (f"sw.models.{file}", name)
    return NetworkSpec(name=name, shape=shape, macs=macs, builder=builder, logits=logits)


_IMAGE = "3×224×224 → 1000"

NETWORKS: dict[str, NetworkSpec] = {
    spec.name: spec
    for spec in (
        NetworkSpec(
            name="digits",
            shape="1×8×8 → 10",
            macs=309_248,
            builder=("sw.models.digits", "prepared"),
            runs=360,
        ),
        _network("resnet18", _IMAGE, 1_814_073_344, "vision"),
        _network("resnet50", _IMAGE, 4_089_184_256, "vision"),
        _network("mobilenet_v1", _IMAGE, 568_740_352, "vision"),
        _network("mobilenet_v2", _IMAGE, 300_774_272, "vision"),
        _network("resnet8", "3×32×32 → 10", 12_501_632, "tiny"),
        _network("ds_cnn", "1×49×10 → 12", 2_656_768, "tiny"),
        _network("vww", "3×96×96 → 2", 7_489_664, "tiny"),
        _network("ad", "640 → 640", 264_192, "tiny", logits=False),
    )
}
