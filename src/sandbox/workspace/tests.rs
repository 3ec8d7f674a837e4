//! The file boundary against paths, links and kinds of files that mean harm.

use std::{
    fs,
    io::Read,
    os::unix::fs::{PermissionsExt, symlink},
    path::PathBuf,
};

use rustix::fs::{CWD, Mode};
use tempfile::TempDir;

use super::*;

struct Place {
    dir: TempDir,
    workspace: Workspace,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for folder in ["team/plugins", "team/notes", "other", "manuals", "drop"] {
            fs::create_dir_all(dir.path().join(folder)).unwrap();
        }
        fs::write(dir.path().join("team/config.yaml"), "mine").unwrap();
        fs::write(dir.path().join("team/notes/a"), "inside").unwrap();
        fs::write(dir.path().join("other/a"), "outside").unwrap();
        fs::write(dir.path().join("manuals/m"), "manual").unwrap();
        let allowed = [("manuals", Access::ReadOnly), ("drop", Access::ReadWrite)]
            .map(|(name, access)| AllowedDir { path: dir.path().join(name), access });
        let workspace = Workspace::open(&dir.path().join("team"), &allowed).unwrap();
        Self { dir, workspace }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    fn absolute(&self, path: &str) -> String {
        self.path(path).display().to_string()
    }

    fn read(&self, path: &str) -> Result<String, String> {
        let mut opened =
            self.workspace.open_file(path, &unguarded).map_err(|error| error.to_string())?;
        let mut text = String::new();
        opened.file.read_to_string(&mut text).unwrap();
        Ok(text)
    }

    fn write(&self, path: &str) -> Result<Class, String> {
        self.workspace
            .write(path, b"new", &unguarded)
            .map(|written| written.class)
            .map_err(|error| error.to_string())
    }
}

fn outside(path: &str) -> Result<String, String> {
    Err(format!("Access denied: {path} is outside the workspace"))
}

/// TO-47, TO-49
#[test]
fn relative_and_absolute_paths_lead_to_the_roots_and_nowhere_else() {
    let place = Place::new();
    let (inside, manual) = (place.absolute("team/notes/a"), place.absolute("manuals/m"));
    let (other, climbing) = (place.absolute("other/a"), place.absolute("team/../other/a"));

    assert_eq!(place.read("notes/a"), Ok("inside".into()));
    assert_eq!(place.read("./notes/../notes//a"), Ok("inside".into()));
    assert_eq!(place.read(&inside), Ok("inside".into()));
    assert_eq!(place.read(&manual), Ok("manual".into()));
    for path in [
        &other,
        &climbing,
        "../other/a",
        "notes/../../other/a",
        "/etc/passwd",
        "/proc/self/environ",
    ] {
        assert_eq!(place.read(path), outside(path));
        assert_eq!(place.write(path), outside(path).map(|_| Class::Other));
    }
    assert_eq!(place.read("~/a"), Err("~/a does not exist".into()));
    assert_eq!(place.read("$HOME/a"), Err("$HOME/a does not exist".into()));
}

/// TO-48
#[test]
fn links_are_followed_inside_and_refused_outside() {
    let place = Place::new();
    symlink("notes/a", place.path("team/near")).unwrap();
    symlink("../other/a", place.path("team/far")).unwrap();
    symlink("../other", place.path("team/faraway")).unwrap();
    symlink(place.path("other/a"), place.path("team/absolute")).unwrap();
    symlink("/proc/self/root", place.path("team/magic")).unwrap();
    symlink("loop", place.path("team/loop")).unwrap();

    assert_eq!(place.read("near"), Ok("inside".into()));
    for path in ["far", "faraway/a", "absolute", "magic/etc/passwd", "faraway/new"] {
        assert_eq!(place.read(path), outside(path));
        assert_eq!(place.write(path), outside(path).map(|_| Class::Other));
    }
    assert!(place.read("loop").is_err() && place.write("loop").is_err());
    assert_eq!(fs::read_to_string(place.path("other/a")).unwrap(), "outside");
    assert!(!place.path("other/new").exists());
}

/// TO-48: writing through a link changes the file it names and leaves the link.
#[test]
fn a_link_inside_is_written_through() {
    let place = Place::new();
    symlink("notes/a", place.path("team/near")).unwrap();
    symlink("notes/fresh", place.path("team/dangling")).unwrap();

    assert_eq!(place.write("near"), Ok(Class::Other));
    assert_eq!(place.write("dangling"), Ok(Class::Other));

    assert_eq!(fs::read_to_string(place.path("team/notes/a")).unwrap(), "new");
    assert_eq!(fs::read_to_string(place.path("team/notes/fresh")).unwrap(), "new");
    assert!(place.path("team/near").is_symlink());
}

/// TO-50, TO-52, TO-53
#[test]
fn governed_paths_are_not_written_by_any_name() {
    let place = Place::new();
    symlink("config.yaml", place.path("team/alias")).unwrap();
    symlink("../config.yaml", place.path("team/notes/alias")).unwrap();
    symlink(".", place.path("team/here")).unwrap();
    symlink("plugins", place.path("team/code")).unwrap();
    symlink("plugins/new.js", place.path("team/dangling")).unwrap();
    symlink("team", place.path("drop/team")).unwrap();
    let absolute = place.absolute("team/config.yaml");
    let config = [
        "config.yaml",
        "./config.yaml",
        "notes/../config.yaml",
        "alias",
        "notes/alias",
        "here/config.yaml",
        "here/here/config.yaml",
        "config.yaml/x",
        &absolute,
    ];
    let plugins =
        ["plugins/a.js", "plugins/deep/er/a.js", "code/a.js", "here/plugins/a.js", "dangling"];

    for path in config {
        let refused = place.write(path).unwrap_err();
        let governed = format!("Governance: write blocked for own-config path: {path}");
        // A path through the file cannot be opened in the first place.
        assert!(refused == governed || path == "config.yaml/x", "{refused}");
    }
    for path in plugins {
        let governed = format!("Governance: write blocked for own-plugins path: {path}");
        assert_eq!(place.write(path), Err(governed));
    }
    assert_eq!(fs::read_to_string(place.path("team/config.yaml")).unwrap(), "mine");
    assert_eq!(fs::read_dir(place.path("team/plugins")).unwrap().count(), 0);
}

/// TO-52: what counts is where a path really leads, also from another root.
#[test]
fn a_root_around_the_workspace_does_not_open_its_configuration() {
    let place = Place::new();
    symlink("team", place.path("detour")).unwrap();
    let around = [AllowedDir { path: place.dir.path().to_owned(), access: Access::ReadWrite }];
    let workspace = Workspace::open(&place.path("team"), &around).unwrap();
    let path = place.absolute("detour/config.yaml");

    let refused = workspace.write(&path, b"new", &unguarded).unwrap_err().to_string();

    assert_eq!(refused, format!("Governance: write blocked for own-config path: {path}"));
}

/// TO-55
#[test]
fn the_rest_of_the_workspace_is_written_and_classed() {
    let place = Place::new();

    let paths = ["skills/a/SKILL.md", "org-rules/r.md", "deep/er/config.yaml", "Config.yaml"];
    let classes = paths.map(|path| place.write(path));

    assert_eq!(
        classes,
        [Ok(Class::OwnSkills), Ok(Class::OwnOrgRules), Ok(Class::Other), Ok(Class::Other)]
    );
}

/// TO-49
#[test]
fn an_allowed_folder_is_written_only_if_given_for_writing() {
    let place = Place::new();
    let (manual, drop) = (place.absolute("manuals/m"), place.absolute("drop/d"));

    let refused = format!("Access denied: {manual} is in a read-only folder");
    assert_eq!(place.write(&manual), Err(refused));
    assert_eq!(place.write(&drop), Ok(Class::Other));
}

/// SC-64
#[test]
fn only_regular_files_are_opened_and_nothing_blocks() {
    let place = Place::new();
    rustix::fs::mkfifoat(CWD, place.path("team/pipe"), Mode::RWXU).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(place.path("team/socket")).unwrap();

    let refused = ["pipe", "socket", "notes"].map(|path| place.read(path).unwrap_err());
    let unwritten =
        ["pipe", "socket", "notes", "notes/"].map(|path| place.write(path).unwrap_err());

    assert_eq!(
        refused,
        [
            "pipe is a pipe, not a regular file",
            "socket is a socket or a device, not a regular file",
            "notes is a folder, not a regular file",
        ]
    );
    assert_eq!(
        unwritten,
        [
            "pipe is a pipe, not a regular file",
            "socket is a socket, not a regular file",
            "notes is a folder, not a regular file",
            "notes/ is a folder, not a regular file",
        ]
    );
}

/// SC-64
#[test]
fn a_device_is_refused() {
    let devices = Workspace::open(Path::new("/dev"), &[]).unwrap();

    let refused = devices.open_file("null", &unguarded).unwrap_err().to_string();

    assert_eq!(refused, "null is a device, not a regular file");
}

/// TO-48
#[test]
fn impossible_names_are_refused() {
    let place = Place::new();
    let (long, deep) = ("x".repeat(4096), "x/".repeat(3000));

    let refused = ["", "a\0b", &long, &deep].map(|path| place.read(path).unwrap_err());
    let unwritten = ["", "a\0b", &long].map(|path| place.write(path).unwrap_err());

    let expected = [
        "the path is empty",
        "the path holds a NUL byte",
        "the path is too long",
        "the path is too long",
    ];
    assert_eq!(refused, expected);
    assert_eq!(unwritten, expected[..3]);
}

/// TO-58, SC-65
#[test]
fn a_write_keeps_the_mode_and_leaves_nothing_else() {
    let place = Place::new();
    let script = place.path("team/notes/run.sh");
    fs::write(&script, "old").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o750)).unwrap();

    place.write("notes/run.sh").unwrap();
    place.write("fresh/er/file").unwrap();

    let mode = |path: &str| fs::metadata(place.path(path)).unwrap().permissions().mode() & 0o777;
    assert_eq!(fs::read_to_string(script).unwrap(), "new");
    assert_eq!(
        ["team/notes/run.sh", "team/fresh/er/file", "team/fresh"].map(mode),
        [0o750, 0o600, 0o700]
    );
    assert_eq!(fs::read_dir(place.path("team/notes")).unwrap().count(), 2);
}
