"""The false-positive filters: each one's own case, which has another verdict without it."""
