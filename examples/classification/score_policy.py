"""The accuracy of a trained digits policy on a recorded test set.

python score_policy.py outputs/digits/checkpoints/last data/digits/test
"""

import sys

from manyhands import load_policy, open_dataset


def main(checkpoint: str, root: str) -> None:
    """Compare the class with the highest score with the recorded one."""
    policy = load_policy(checkpoint, device="cpu")
    samples = open_dataset(root=root)
    batch = samples.batch(range(len(samples)))
    guesses = policy.predict_action_chunk(batch)[:, 0].argmax(dim=1)
    num_correct = int((guesses == batch["action"].argmax(dim=1)).sum())
    accuracy = 100 * num_correct / len(samples)
    print(f"accuracy {accuracy:.2f} % ({num_correct} of {len(samples)})")


if __name__ == "__main__":
    main(*sys.argv[1:])
