//! Types of settings: how a file writes their values, and which values are allowed.

use std::{
    collections::BTreeMap,
    net::IpAddr,
    ops::RangeInclusive,
    path::{Path, PathBuf},
    time::Duration,
};

use hivewright_actors::text::{Size, Span, Words};
use serde_json::{Value as Json, json};

use super::{
    field::Field,
    home::Home,
    network::{self, HostPattern, HostPort, Network, Origin},
    zone::Zone,
};

/// The shortest duration that is not nothing.
pub(crate) const SHORTEST: Duration = Duration::from_millis(1);

/// A type that a setting can have.
pub(crate) trait Setting: Sized {
    /// What narrows the type, such as a range.
    type Bounds;

    /// The value. What is wrong with it is reported.
    fn read(field: &Field<'_>, bounds: &Self::Bounds) -> Option<Self>;

    /// Which values are allowed, for people; empty if that goes without saying.
    fn allowed(_bounds: &Self::Bounds) -> String {
        String::new()
    }

    /// As a file would write it. Null is nothing, or what is never a default.
    fn shown(&self) -> Json {
        Json::Null
    }
}

impl<T: Setting> Setting for Option<T> {
    type Bounds = T::Bounds;

    fn read(field: &Field<'_>, bounds: &T::Bounds) -> Option<Self> {
        T::read(field, bounds).map(Some)
    }

    fn allowed(bounds: &T::Bounds) -> String {
        T::allowed(bounds)
    }

    fn shown(&self) -> Json {
        self.as_ref().map_or(Json::Null, T::shown)
    }
}

impl<T: Setting> Setting for Vec<T> {
    type Bounds = T::Bounds;

    fn read(field: &Field<'_>, bounds: &T::Bounds) -> Option<Self> {
        field.list(|item| T::read(&item, bounds))
    }

    fn allowed(bounds: &T::Bounds) -> String {
        T::allowed(bounds)
    }

    fn shown(&self) -> Json {
        self.iter().map(T::shown).collect()
    }
}

/// Texts by name.
impl Setting for BTreeMap<String, String> {
    type Bounds = ();

    fn read(field: &Field<'_>, (): &()) -> Option<Self> {
        let members = field.members()?.into_iter();
        members.map(|(name, field)| Some((name.to_owned(), field.text()?))).collect()
    }

    fn shown(&self) -> Json {
        json!(self)
    }
}

macro_rules! whole_numbers {
    ($($number:ty),+) => {$(
        impl Setting for $number {
            type Bounds = RangeInclusive<u64>;

            fn read(field: &Field<'_>, range: &RangeInclusive<u64>) -> Option<Self> {
                field.integer(range.clone())
            }

            fn allowed(range: &RangeInclusive<u64>) -> String {
                format!("from {} to {}", range.start(), range.end())
            }

            fn shown(&self) -> Json {
                json!(self)
            }
        }
    )+};
}
whole_numbers!(u16, u32, u64, usize);

impl Setting for Duration {
    type Bounds = RangeInclusive<Self>;

    fn read(field: &Field<'_>, range: &RangeInclusive<Self>) -> Option<Self> {
        let range = Span(*range.start())..=Span(*range.end());
        field.measure("a duration such as 90s", range).map(|span| span.0)
    }

    fn allowed(range: &RangeInclusive<Self>) -> String {
        let (least, most) = (*range.start(), Span(*range.end()));
        if least == SHORTEST {
            format!("at most {most}")
        } else {
            format!("from {} to {most}", Span(least))
        }
    }

    fn shown(&self) -> Json {
        json!(Span(*self))
    }
}

/// The time between two of something that happens again and again. None is never, and written `0s`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interval(pub Option<Duration>);

impl Setting for Interval {
    type Bounds = RangeInclusive<Duration>;

    fn read(field: &Field<'_>, range: &RangeInclusive<Duration>) -> Option<Self> {
        match Duration::read(field, &(Duration::ZERO..=*range.end()))? {
            Duration::ZERO => Some(Self(None)),
            some if range.contains(&some) => Some(Self(Some(some))),
            _ => field.reject(format!("expected {}", Self::allowed(range))),
        }
    }

    fn allowed(range: &RangeInclusive<Duration>) -> String {
        format!("0s, which is never, or {}", Duration::allowed(range))
    }

    fn shown(&self) -> Json {
        self.0.map_or_else(|| json!("0s"), |duration| duration.shown())
    }
}

impl Setting for Size {
    type Bounds = RangeInclusive<Self>;

    fn read(field: &Field<'_>, range: &RangeInclusive<Self>) -> Option<Self> {
        field.measure("a size such as 64MiB", range.clone())
    }

    fn allowed(range: &RangeInclusive<Self>) -> String {
        format!("from {} to {}", range.start(), range.end())
    }

    fn shown(&self) -> Json {
        json!(self)
    }
}

/// Types that nothing narrows: how each is read, and whether it is shown as it is serialised.
macro_rules! unbounded {
    ($($type:ty: $read:expr $(, $shown:ident)?;)+) => {$(
        impl Setting for $type {
            type Bounds = ();

            fn read(field: &Field<'_>, (): &()) -> Option<Self> {
                let read: fn(&Field<'_>) -> Option<Self> = $read;
                read(field)
            }

            $(fn $shown(&self) -> Json {
                json!(self)
            })?
        }
    )+};
}

unbounded! {
    bool: |field| field.boolean(), shown;
    f64: |field| field.amount(), shown;
    String: |field| field.text(), shown;
    IpAddr: |field| field.parse(|text| text.parse().map_err(|_| "expected an IP address")), shown;
    PathBuf: read_path;
    Zone: |field| field.parse(Zone::parse);
    Origin: |field| field.parse(str::parse);
    Network: |field| field.parse(str::parse);
    HostPattern: |field| field.parse(str::parse);
    HostPort: |field| field.parse(str::parse);
}

/// A relative path begins at the data dir.
fn read_path(field: &Field<'_>) -> Option<PathBuf> {
    let folder = field.home().map_or(Path::new(""), Home::data);
    field.parse(|text| match text {
        "" => Err("expected a path"),
        _ => Ok(folder.join(text)),
    })
}

/// The address of an API.
pub(super) fn read_api_url(field: &Field<'_>) -> Option<String> {
    field.parse(network::api_url)
}

/// Declares enums of words that are settings.
macro_rules! choices {
    ($($choice:ty),+ $(,)?) => {$(
        impl $crate::settings::setting::Setting for $choice {
            type Bounds = ();

            fn read(field: &$crate::settings::field::Field<'_>, (): &()) -> Option<Self> {
                field.choice()
            }

            fn allowed((): &()) -> String {
                $crate::settings::setting::one_of::<Self>()
            }

            fn shown(&self) -> serde_json::Value {
                serde_json::json!(self)
            }
        }
    )+};
}

pub(crate) use choices;

pub(crate) fn one_of<T: Words>() -> String {
    match T::WORDS {
        [one] => format!("only `{one}`"),
        [before @ .., last] => format!("`{}` or `{last}`", before.join("`, `")),
        [] => String::new(),
    }
}
