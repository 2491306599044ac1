"""What confidence is good for, one file a task: each takes beliefs and gives what a person asked for."""
