//! Trust as peers use it.
