"""Draw one frame under every image transform, at both ends of its range.

python examples/show_augmentation.py [FILE.png]; the default is docs/images/augmentation.png
"""

import io
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import torch
from PIL import Image

from manyhands.config.sections.image_transforms import TransformConfig
from manyhands.data.augment.augmentation import build_transform
from manyhands.sim.tray.drawing import Scene, draw_scene

SIZE = 96
NUM_COLUMNS = 5

SHOWN: dict[str, tuple[str, dict[str, object], dict[str, object]]] = {
    "brightness 0.8, 1.2": ("ColorJitter", {"brightness": [0.8] * 2}, {"brightness": [1.2] * 2}),
    "contrast 0.8, 1.2": ("ColorJitter", {"contrast": [0.8] * 2}, {"contrast": [1.2] * 2}),
    "saturation 0.5, 1.5": ("ColorJitter", {"saturation": [0.5] * 2}, {"saturation": [1.5] * 2}),
    "hue -0.05, 0.05": ("ColorJitter", {"hue": [-0.05] * 2}, {"hue": [0.05] * 2}),
    "sharpness 0.5, 1.5": (
        "SharpnessJitter",
        {"sharpness": [0.5] * 2},
        {"sharpness": [1.5] * 2},
    ),
    "affine -5°, 5°": (
        "RandomAffine",
        {"degrees": [-5, -5], "translate": [0.05, 0.05]},
        {"degrees": [5, 5], "translate": [0.05, 0.05]},
    ),
    "blur sigma 0.1, 2": (
        "GaussianBlur",
        {"kernel_size": 9, "sigma": 0.1},
        {"kernel_size": 9, "sigma": 2},
    ),
    "motion 3, 11": ("MotionBlur", {"kernel_size": 3}, {"kernel_size": 11}),
    "noise std 5, 25": ("GaussianNoise", {"std": [5, 5]}, {"std": [25, 25]}),
    "gamma 0.5, 2": ("GammaCorrection", {"gamma": [0.5] * 2}, {"gamma": [2] * 2}),
    "3000 K, 15000 K": ("PlanckianJitter", {"temperature": 3000}, {"temperature": 15_000}),
    "patches 0.4, 1.6": (
        "GaussianPatchBrightness",
        {"num_patches": 3, "factor_range": [0.4] * 2},
        {"num_patches": 3, "factor_range": [1.6] * 2},
    ),
    "shadow 0.3, 0.6": ("RandomShadow", {"opacity": 0.3}, {"opacity": 0.6}),
    "dropout 0.07, 0.2": (
        "CoarseDropout",
        {},
        {"max_height_frac": 0.2, "max_width_frac": 0.2, "fill_value": 0.5},
    ),
}
"""By caption: a type with the kwargs of two images."""


def main(path: Path) -> None:
    """Write the figure."""
    pairs = {"as recorded": [frame()]} | {
        caption: [transformed(kind, kwargs) for kwargs in ends]
        for caption, (kind, *ends) in SHOWN.items()
    }
    path.write_bytes(encoded(grid_of(pairs)))
    print(f"{path}: {path.stat().st_size} bytes")


def frame() -> np.ndarray:
    """A table with a tray, a block and an arm, as the simulated camera sees it."""
    places = {
        "gripper": np.array([[-0.25, 0.05]]),
        "block": np.array([[0.15, -0.45]]),
        "tray": np.array([[0.45, 0.35]]),
    }
    scene = Scene(**places, opening=np.array([0.9]), height=np.array([0.0]))
    return draw_scene(scene, SIZE)[0] / 255


def transformed(kind: str, kwargs: dict[str, object]) -> np.ndarray:
    """The frame after one transform; what its kwargs leave open is drawn from a fixed seed."""
    transform = build_transform(TransformConfig(type=kind, kwargs=kwargs))
    generator = torch.Generator().manual_seed(11)
    uniforms = torch.rand(1, transform.num_uniforms, generator=generator)
    images = torch.from_numpy(frame()).float().permute(2, 0, 1)[None, None]
    return transform(images, uniforms)[0, 0].permute(1, 2, 0).numpy()


def grid_of(pairs: dict[str, list[np.ndarray]]) -> plt.Figure:
    """Captions over their images, side by side."""
    num_rows = -(-len(pairs) // NUM_COLUMNS)
    figure, axes = plt.subplots(num_rows, NUM_COLUMNS, figsize=(10, 1.2 * num_rows), dpi=100)
    for axis in axes.flat:
        axis.axis("off")
    for axis, (caption, images) in zip(axes.flat, pairs.items(), strict=False):
        gap = np.ones((SIZE, 4, 3))
        axis.imshow(np.concatenate([images[0], gap, images[-1]], axis=1))
        axis.set_title(caption, fontsize=8, pad=3)
    figure.subplots_adjust(0.005, 0.01, 0.995, 0.94, wspace=0.03, hspace=0.22)
    return figure


def encoded(figure: plt.Figure) -> bytes:
    """A small PNG: 256 colors are enough for an overview."""
    drawn, small = io.BytesIO(), io.BytesIO()
    figure.savefig(drawn, format="png")
    Image.open(drawn).convert("RGB").quantize(256).save(small, format="png", optimize=True)
    return small.getvalue()


if __name__ == "__main__":
    default = Path(__file__).resolve().parents[1] / "docs" / "images" / "augmentation.png"
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else default)
