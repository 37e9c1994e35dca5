"""``python -m int8blas`` prints the configuration."""

from int8blas import show_config

if __name__ == "__main__":
    show_config()
