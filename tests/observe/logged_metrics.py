"""What a step of training logs."""

METRICS = {
    "loss": 1.5,
    "lr": 1e-5,
    "grad_norm": 3.25,
    "samples_per_s": 120.0,
    "data_wait_share": 0.25,
    "step_s": 0.5,
}
