//! Shipped plugins: the packages of `config/plugins/`, held inside the binary. No team has one before it is switched on.

/// The files of a package, each by its path.
pub(super) type EmbeddedFiles = &'static [(&'static str, &'static [u8])];

macro_rules! package {
    ($key:literal, $($file:literal),+) => {
        &[$(($file, include_bytes!(concat!("../../config/plugins/", $key, "/", $file)))),+]
    };
}

/// Those that there are, by key.
pub(super) const SHIPPED: &[(&str, EmbeddedFiles)] = &[
    ("dates", package!("dates", "plugin.toml")),
    ("echo-channel", package!("echo-channel", "main.js", "plugin.toml", "schema.json")),
    ("guard", package!("guard", "main.js", "plugin.toml", "schema.json")),
    ("http", package!("http", "main.js", "plugin.toml", "schema.json")),
];
