//! Tables of decisions.
