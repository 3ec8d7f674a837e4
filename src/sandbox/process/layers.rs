//! Which layers of confinement this machine has.

use hivewright_actors::words;
use serde::{Deserialize, Serialize};

use super::sys;

/// Landlock from here on also keeps files from being cut.
const OLDEST_LANDLOCK: u32 = 3;
/// Landlock from here on keeps a process from signalling others.
const SIGNAL_LANDLOCK: u32 = 6;

words! {
    /// A layer of the sandbox.
    pub enum Layer {
        /// Session, limits, capabilities: what every process can do to itself.
        Base = "base",
        /// File access by handles.
        Landlock = "landlock",
        /// System calls.
        Seccomp = "seccomp",
        /// Own processes, mounts, network.
        Namespaces = "namespaces",
        /// No way to any host.
        Network = "network",
        /// Nothing outlives its call.
        Cleanup = "cleanup",
    }
}

impl Layer {
    /// What an operator can do about a missing one.
    pub fn cure(self) -> &'static str {
        match self {
            Self::Landlock => {
                "run Linux 6.2 or newer with `landlock` in the kernel's `lsm=` list, and let a container pass its system calls"
            }
            Self::Seccomp => "run a kernel with CONFIG_SECCOMP_FILTER",
            Self::Namespaces => {
                "allow user namespaces (`user.max_user_namespaces`, and the container's seccomp profile), or run Linux 6.12 or newer"
            }
            Self::Base | Self::Network | Self::Cleanup => "run `hivewright doctor` and see the log",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Missing {
    pub(super) layer: Layer,
    pub(super) reason: String,
}

impl Missing {
    pub(super) fn new(layer: Layer, reason: impl ToString) -> Self {
        Self { layer, reason: reason.to_string() }
    }

    /// For `map_err`.
    pub(super) fn of<E: ToString>(layer: Layer, what: &'static str) -> impl Fn(E) -> Self {
        move |error| Self::new(layer, format!("{what}: {}", error.to_string()))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layers {
    /// The version of Landlock, 0 for none.
    pub landlock: u32,
    /// System calls can be refused.
    pub seccomp: bool,
    /// User, mount, process, network and the other namespaces, all together.
    pub namespaces: bool,
}

impl Layers {
    /// Asks the kernel. Namespaces are only known by trying; until then they count as there.
    pub(super) fn ask() -> Self {
        Self { landlock: sys::landlock_abi(), seccomp: sys::seccomp_available(), namespaces: true }
    }

    /// The layer without which nothing runs here, if one is missing.
    pub fn missing(&self) -> Option<Layer> {
        if self.landlock < OLDEST_LANDLOCK {
            Some(Layer::Landlock)
        } else if !self.seccomp {
            Some(Layer::Seccomp)
        } else if !self.namespaces && self.landlock < SIGNAL_LANDLOCK {
            // A command that sees the daemon's process must not be able to signal it.
            Some(Layer::Namespaces)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SC-55
    #[test]
    fn landlock_and_seccomp_are_always_needed_and_namespaces_where_landlock_is_old() {
        let table = [
            ((9, true, true), None),
            ((3, true, true), None),
            ((2, true, true), Some(Layer::Landlock)),
            ((0, true, true), Some(Layer::Landlock)),
            ((9, false, true), Some(Layer::Seccomp)),
            ((6, true, false), None),
            ((5, true, false), Some(Layer::Namespaces)),
        ];

        for ((landlock, seccomp, namespaces), missing) in table {
            let layers = Layers { landlock, seccomp, namespaces };
            assert_eq!((layers, layers.missing()), (layers, missing));
        }
    }
}
