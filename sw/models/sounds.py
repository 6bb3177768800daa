"""Input data for the two sound networks: synthetic recordings from a seed, and their features.

No recorded sounds come with the packages we use, so that these are made up: words are a few voiced
syllables with formants, machines are a hum with harmonics, modulation and noise. Only the form of
the data (shape, range, smoothness in time and frequency) is that of the real tasks.
"""

import numpy as np
from numpy.typing import NDArray

RATE = 16_000
WORDS = "synthetic syllables from a seed, not recorded speech"
MACHINES = "synthetic machine hum from a seed, no recordings"

Float = NDArray[np.float32]


def word_features(count: int, seed: int) -> Float:
    """MFCCs of one second each: float32 [count, 1, 49, 10], 40 ms windows every 20 ms."""
    return np.stack([_mfcc(_word(np.random.default_rng([seed, i])))[None] for i in range(count)])


def machine_features(count: int, seed: int) -> Float:
    """Five frames of 128 log mel bands each, in dB about their mean: float32 [count, 640]."""
    return np.stack(
        [_frames(_machine(np.random.default_rng([seed, i]))).reshape(-1) for i in range(count)]
    )


def _word(rng: np.random.Generator) -> NDArray[np.float64]:
    time = np.arange(RATE) / RATE
    sound = 0.003 * rng.standard_normal(RATE)
    for _ in range(int(rng.integers(1, 4))):
        pitch = rng.uniform(90, 240) * (1 + 0.1 * np.sin(2 * np.pi * rng.uniform(0.5, 3) * time))
        formants = rng.uniform([300, 900, 2200], [800, 2000, 3200])
        phase = 2 * np.pi * np.cumsum(pitch) / RATE
        middle, length = rng.uniform(0.2, 0.8), rng.uniform(0.05, 0.2)
        mean = pitch.mean()
        envelope = np.exp(-(((time - middle) / length) ** 2))
        for k in range(1, 25):
            gain = sum(np.exp(-(((k * mean - f) / 150) ** 2)) for f in formants) + 0.02
            sound += 0.2 * gain * envelope * np.sin(k * phase + rng.uniform(0, 6))
    return sound


def _machine(rng: np.random.Generator) -> NDArray[np.float64]:
    samples = 1024 + 4 * 512
    time = np.arange(samples) / RATE
    hum = rng.uniform(40, 120)
    sound = rng.uniform(0.01, 0.1) * rng.standard_normal(samples)
    for k in range(1, 40):
        gain = rng.uniform(0, 1) / k
        sound += gain * np.sin(2 * np.pi * hum * k * time + rng.uniform(0, 6))
    return sound * (1 + 0.3 * np.sin(2 * np.pi * rng.uniform(2, 10) * time))


def _mfcc(sound: NDArray[np.float64]) -> Float:
    log = np.log(_mel(sound, 640, 320, 40) + 1e-6)
    bands = np.arange(40)
    dct = np.cos(np.pi / 40 * np.outer(np.arange(10), bands + 0.5))
    return np.asarray(log @ dct.T / 10, np.float32)


def _frames(sound: NDArray[np.float64]) -> Float:
    log = 10 * np.log10(_mel(sound, 1024, 512, 128) + 1e-6)
    return np.asarray((log - log.mean()) / 10, np.float32)


def _mel(sound: NDArray[np.float64], window: int, hop: int, bands: int) -> NDArray[np.float64]:
    """Power in triangular mel bands: [frames, bands]."""
    starts = range(0, len(sound) - window + 1, hop)
    frames = np.stack([sound[s : s + window] for s in starts]) * np.hanning(window)
    power = np.abs(np.fft.rfft(frames)) ** 2
    top = 2595 * np.log10(1 + RATE / 2 / 700)
    edges = 700 * (10 ** (np.linspace(0, top, bands + 2) / 2595) - 1)
    bins = np.fft.rfftfreq(window, 1 / RATE)
    # At least one bin wide: low bands are narrower than a bin of the transform.
    width = np.maximum(np.diff(edges), RATE / window)
    rising = (bins - edges[1:-1, None]) / width[:-1, None] + 1
    falling = 1 - (bins - edges[1:-1, None]) / width[1:, None]
    return np.asarray(power @ np.clip(np.minimum(rising, falling), 0, None).T)
