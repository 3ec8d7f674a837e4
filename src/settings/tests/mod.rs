mod files;
mod first_start;
mod live;
mod migrate;
mod profiles;
mod references;
mod shipped;
mod teams;
mod trust;

use std::{fs, path::Path};

use tempfile::TempDir;

use super::{
    home::{Flags, Home},
    references::Environment,
};

/// A home in a folder of its own.
pub(crate) struct Place {
    _folder: TempDir,
    pub(crate) home: Home,
    pub(crate) environment: Environment,
}

pub(crate) fn place() -> Place {
    let folder = tempfile::tempdir().unwrap();
    let flags = Flags { home: Some(folder.path().to_owned()), ..Flags::default() };
    let environment = Environment::fixed([("KEY", "sesame")]);
    let home = Home::new(&flags, &environment).unwrap();
    home.prepare().unwrap();
    Place { _folder: folder, home, environment }
}

impl Place {
    pub(crate) fn write(&self, path: &Path, text: impl AsRef<[u8]>) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

/// Problems without the folder of the test.
fn lines(shown: impl ToString, home: &Home) -> Vec<String> {
    let text = shown.to_string();
    let text = text.replace(&format!("{}/", home.data().display()), "");
    let text = text.replace(&format!("{}/", home.run().display()), "");
    text.lines().map(str::to_owned).collect()
}
