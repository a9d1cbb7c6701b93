"""Flags of policies that real runs train."""

SMOLVLA = (
    "--policy.type=smolvla",
    "--policy.random_vlm=true",
    "--policy.num_vlm_layers=2",
    "--policy.chunk_size=4",
    "--policy.n_action_steps=4",
    "--policy.resize_imgs_with_padding=[32,32]",
    "--policy.max_state_dim=8",
    "--policy.max_action_dim=6",
)
"""As small as one can be; it also needs the folder of a vision-language model."""
