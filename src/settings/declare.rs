//! Declaration of settings: each with its name, type, default, range and words, once.
//!
//! [`settings!`] makes the struct, its defaults and its reader. Reading also describes what is read,
//! so the effective view, the shipped files and the tables of the documentation follow from it.

/// Declares structs of settings, or (`for`) how structs that are declared elsewhere are read.
///
/// A field without a default is a section of its own. A default may name fields above it, as they were
/// read. What stands in front of a field, in this order:
///
/// - its doc comment, which is the comment of the shipped file and the text of the documentation,
/// - `range`: the bounds of its type,
/// - `read`: a reader of its own, a function of the [`Field`](super::field::Field),
/// - `example`: what the shipped file shows beside or instead of the default,
/// - `counts`: when a change counts, unless at once,
/// - `skip`: why it does not stand in the file.
///
/// In front of a struct: `derive` for more traits, `retired` for keys that are refused with a reason, each with its [`Cure`](super::document::Cure), and
/// `check` for a function of the struct and the section that looks at fields together.
macro_rules! settings {
    (@struct $($item:item)+) => { $($item)+ };
    (@for $($item:item)+) => {};

    ($(
        $(#[doc = $about:literal])*
        $(#[derive($($derive:ident),+)])?
        $(#[retired($retired:expr)])?
        $(#[check($check:path)])?
        $vis:vis $declared:ident $name:ident {$(
            $(#[doc = $doc:literal])*
            $(#[range($range:expr)])?
            $(#[read($read:path)])?
            $(#[example($example:expr)])?
            $(#[counts($counts:ident)])?
            $(#[skip = $skip:literal])?
            $field:ident: $type:ty $(= $default:expr)?,
        )+}
    )+) => {$(
        settings! {
            @$declared
            $(#[doc = $about])*
            #[derive(Clone, Debug, PartialEq)]
            $(#[derive($($derive),+)])?
            $vis struct $name {
                $($(#[doc = $doc])* pub $field: $type,)+
            }

            impl Default for $name {
                fn default() -> Self {
                    $(let $field: $type = settings!(@default $($default)?);)+
                    Self { $($field),+ }
                }
            }
        }

        impl $crate::settings::reader::Group for $name {
            #[cfg(test)]
            const ABOUT: &'static str = concat!($($about, "\n"),*);

            fn read(section: &mut $crate::settings::reader::Section<'_>) -> Self {
                $(for (key, cure, reason) in $retired {
                    section.retired(key, cure, reason);
                })?
                $(let $field: $type = settings!(
                    @read section,
                    $crate::settings::document::Declaration {
                        key: stringify!($field),
                        about: concat!($($doc, "\n"),*),
                        example: settings!(@example $($example)?),
                        counts: settings!(@counts $($counts)?),
                    },
                    $type, [$($default)?] [$($range)?] [$($read)?] [$($skip)?]
                );)+
                let found = Self { $($field),+ };
                $(let found = $check(found, section);)?
                found
            }

            #[allow(unused_variables, reason = "a section may have no such setting")]
            fn add_restarts(&self, other: &Self, path: &str, found: &mut Vec<String>) {
                $(settings!(
                    @restart self, other, path, found, $field, [$($default)?] [$($counts)?]
                );)+
            }
        }
    )+};

    (@default) => { Default::default() };
    (@default $default:expr) => { $default };

    (@example) => { None };
    (@example $example:expr) => { Some($example) };

    (@counts) => { $crate::settings::document::Counts::AtOnce };
    (@counts $counts:ident) => { $crate::settings::document::Counts::$counts };

    (@bounds) => { () };
    (@bounds $range:expr) => { $range };

    (@read $section:ident, $declared:expr, $type:ty, [$default:expr] [] [] [$skip:literal]) => {
        $default
    };
    (@read $section:ident, $declared:expr, $type:ty, [] [] [] []) => {
        $section.group::<$type>($declared)
    };
    (@read $section:ident, $declared:expr, $type:ty, [$default:expr] [] [$read:path] []) => {
        $section.setting($declared, $default, String::new, |field| $read(&field))
    };
    (@read $section:ident, $declared:expr, $type:ty, [$default:expr] [$($range:expr)?] [] []) => {{
        use $crate::settings::setting::Setting;
        let bounds: <$type as Setting>::Bounds = settings!(@bounds $($range)?);
        $section.setting(
            $declared,
            $default,
            || <$type as Setting>::allowed(&bounds),
            |field| <$type as Setting>::read(&field, &bounds),
        )
    }};

    (@restart $self:ident, $other:ident, $path:ident, $found:ident, $field:ident, [] []) => {
        $crate::settings::reader::Group::add_restarts(
            &$self.$field,
            &$other.$field,
            &$crate::settings::document::join($path, stringify!($field)),
            $found,
        );
    };
    (@restart $self:ident, $other:ident, $path:ident, $found:ident, $field:ident, [$default:expr] [NextStart]) => {
        if $self.$field != $other.$field {
            $found.push($crate::settings::document::join($path, stringify!($field)));
        }
    };
    (@restart $self:ident, $other:ident, $path:ident, $found:ident, $field:ident, [$default:expr] [$($counts:ident)?]) => {};
}

pub(crate) use settings;
