//! Shipped plugins: the packages of `config/plugins/`, held inside the binary. No team has one before it is switched on.

/// The files of a package, each by its path.
pub(super) type EmbeddedFiles = &'static [(&'static str, &'static [u8])];

macro_rules! package {
    ($key:literal) => {
        &[
            ("main.js", include_bytes!(concat!("../../config/plugins/", $key, "/main.js"))),
            ("plugin.toml", include_bytes!(concat!("../../config/plugins/", $key, "/plugin.toml"))),
            ("schema.json", include_bytes!(concat!("../../config/plugins/", $key, "/schema.json"))),
        ]
    };
}

/// Those that there are, by key.
pub(super) const SHIPPED: &[(&str, EmbeddedFiles)] = &[
    ("echo-channel", package!("echo-channel")),
    ("guard", package!("guard")),
    ("http", package!("http")),
];
