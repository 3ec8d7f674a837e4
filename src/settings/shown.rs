//! Values of settings in the form in which files write them.

use std::{net::IpAddr, time::Duration};

use serde_json::{Value as Json, json};

use super::units;

/// A value that can stand in a settings file.
pub(crate) trait Shown {
    /// As the file would write it.
    fn shown(&self) -> Json;
}

/// A number of bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size(pub(crate) u64);

impl Shown for Size {
    fn shown(&self) -> Json {
        json!(units::show_size(self.0))
    }
}

impl Shown for Duration {
    fn shown(&self) -> Json {
        json!(units::show_duration(*self))
    }
}

/// None stands for never.
impl Shown for Option<Duration> {
    fn shown(&self) -> Json {
        self.map_or_else(|| json!("0s"), |duration| duration.shown())
    }
}

macro_rules! as_json {
    ($($plain:ty),*) => {$(
        impl Shown for $plain {
            fn shown(&self) -> Json {
                json!(self)
            }
        }
    )*};
}
as_json!(bool, u16, u32, usize, Vec<String>, IpAddr);

/// The word that stands for a value, of those that a setting may be.
pub(crate) fn word_of<T: PartialEq>(words: &[(&'static str, T)], value: &T) -> Json {
    let found = words.iter().find(|(_, meant)| meant == value);
    json!(found.map(|(word, _)| word))
}
