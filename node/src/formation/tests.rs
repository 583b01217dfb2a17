//! Formation, crashes in it, and what is refused.
