//! Order: the direction of a scan or a list.

/// The direction of a scan or a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Smallest key first.
    Rising,
    /// Largest key first.
    Falling,
}
