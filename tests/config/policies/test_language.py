"""How policies read what they are told to do."""

from pathlib import Path

from manyhands.config.policies.act import ActConfig
from manyhands.config.policies.features import LanguageConfig
from manyhands.config.policies.smolvla import SmolVLAConfig


def test_a_policy_that_reads_says_how():
    config = SmolVLAConfig(
        vlm_model_name="me/vlm", tokenizer_max_length=9, pad_language_to="max_length"
    )
    assert config.language == LanguageConfig("me/vlm", 9, "max_length")
    assert ActConfig().language is None


def test_a_policy_whose_folder_holds_all_its_weights_fetches_nothing():
    act = ActConfig(backbone_weights=Path("weights.pth")).without_downloads()
    assert (act.backbone_weights, act.pretrained_backbone_weights) == (None, None)
    assert SmolVLAConfig(load_vlm_weights=True).without_downloads().random_vlm
