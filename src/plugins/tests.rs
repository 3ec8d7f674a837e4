use std::{
    collections::BTreeSet,
    fs,
    io::{Cursor, Write},
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
};

use flate2::{Compression, write::GzEncoder};
use tempfile::TempDir;

use super::{
    archive::{self, ArchiveError},
    catalogue::{Loaded, Sources},
    depot::{Depot, DepotError},
    digest::{self, Extent},
    fault::FaultCode,
    lock::Lock,
    manifest::{Manifest, RunKind},
    package::{Files, Origin, Package},
    signature,
};
use crate::settings::config::Signatures;

/// A manifest that is good, with lines to put in place of others or behind them.
fn manifest(changes: &[(&str, &str)]) -> String {
    let mut text = "\
manifest_version = 1
key = \"sample\"
version = \"1.2.3\"
display_name = \"Sample\"
description = \"A plugin for tests.\"

[run]
kind = \"js\"
entry = \"main.js\"

[tools]
namespace = \"sample\"
"
    .to_owned();
    for (from, to) in changes {
        if from.is_empty() {
            text.push_str(to);
            text.push('\n');
        } else {
            assert!(text.contains(from), "{from}");
            text = text.replace(from, to);
        }
    }
    text
}

/// A folder with a manifest and the entry that it names.
fn write(folder: &Path, manifest: &str) {
    fs::create_dir_all(folder).unwrap();
    fs::write(folder.join("plugin.toml"), manifest).unwrap();
    fs::write(folder.join("main.js"), "export {};\n").unwrap();
}

fn load(folder: &Path) -> Result<Package, (FaultCode, String, String)> {
    Package::load(Files::Folder(folder.to_owned()), Origin::Development)
        .map_err(|fault| (fault.code, fault.file, fault.field))
}

fn depot(folder: &Path) -> Depot {
    let folder = folder.join("plugins");
    let installed = folder.clone();
    let depot = Depot::new(folder, move || Sources {
        installed: installed.clone(),
        reserved: BTreeSet::from(["bash".to_owned()]),
        ..Sources::default()
    });
    depot.prepare().unwrap();
    depot.reload();
    depot
}

use FaultCode::*;

const JS: &str = "kind = \"js\"\nentry = \"main.js\"";

/// What is replaced by what in a manifest; what is found, in which field.
const FAULTS: [(&str, &str, FaultCode, &str); 34] = [
    (
        "manifest_version = 1",
        "manifest_version = 2",
        UnsupportedManifestVersion,
        "manifest_version",
    ),
    ("manifest_version = 1\n", "", ManifestInvalid, ""),
    ("", "more = 1", ManifestInvalid, "tools.more"),
    ("key = \"sample\"", "key = \"Sample\"", KeyInvalid, "key"),
    ("key = \"sample\"", "key = 5", KeyInvalid, "key"),
    ("key = \"sample\"", "key = \"discord\"", KeyInvalid, "key"),
    ("1.2.3", "one", ManifestInvalid, "version"),
    ("A plugin for tests.", "two\\nlines", ManifestInvalid, "description"),
    (
        "version = \"1.2.3\"",
        "version = \"1.2.3\"\nmin_hivewright = \"99.0.0\"",
        NeedsNewerHivewright,
        "min_hivewright",
    ),
    ("kind = \"js\"", "kind = \"wasm\"", UnsupportedRunKind, "run.kind"),
    (JS, "kind = \"builtin\"", UnsupportedRunKind, "run.kind"),
    ("entry = \"main.js\"", "", ManifestInvalid, "run.entry"),
    ("[tools]\nnamespace = \"sample\"\n", "", NoCapability, ""),
    ("namespace = \"sample\"", "namespace = \"a-b\"", ManifestInvalid, "tools.namespace"),
    ("namespace = \"sample\"", "namespace = \"main\"", NamespaceReserved, "tools.namespace"),
    ("namespace = \"sample\"", "namespace = \"a\"\nmax = 65", TooManyTools, "tools.max"),
    (
        "namespace = \"sample\"",
        "namespace = \"a\"\nmax = 1\neffects = {a = \"pure\", b = \"pure\"}",
        TooManyTools,
        "tools.effects",
    ),
    ("", "[[hooks.on]]\nevent = \"model.before\"", HookEventUnknown, "hooks.on[0].event"),
    (
        "",
        "[[hooks.on]]\nevent = \"tool.before@v1\"\npriority = 1001",
        ManifestInvalid,
        "hooks.on[0].priority",
    ),
    (
        "",
        "[config]\nschema = {type = \"object\", properties = {other = {}}}",
        SchemaInvalid,
        "config.schema/properties",
    ),
    (
        "",
        "[config]\nschema = {type = \"object\", properties = {tools = {\"$ref\" = \"https://a.example/\"}}}",
        SchemaInvalid,
        "config.schema/properties/tools/$ref",
    ),
    ("", "[config]\nschema = \"../schema.json\"", PathEscape, "config.schema"),
    (
        JS,
        "kind = \"process\"\ncommand = \"sh\"\nenv_allow = [\"LD_PRELOAD\"]",
        EnvForbidden,
        "run.env_allow",
    ),
    (
        JS,
        "kind = \"process\"\ncommand = \"sh\"\nenv_allow = [\"https_proxy\"]",
        EnvForbidden,
        "run.env_allow",
    ),
    (
        JS,
        "kind = \"process\"\ncommand = \"sh\"\nenv_allow = [\"MY_API_KEY\"]",
        EnvForbidden,
        "run.env_allow",
    ),
    ("main.js", "../main.js", PathEscape, "run.entry"),
    ("main.js", "other.js", EntryMissing, "run.entry"),
    (JS, "kind = \"process\"\ncommand = \"/bin/sh\"", PathEscape, "run.command"),
    (JS, "kind = \"process\"\ncommand = \"bin/none\"", EntryMissing, "run.command"),
    (JS, "kind = \"process\"\ncommand = \"no-such-program\"", EntryMissing, "run.command"),
    ("", "[limits]\ncall_timeout = \"11m\"", ManifestInvalid, "limits.call_timeout"),
    ("", "[sandbox]\nnetwork = \"broker\"", ManifestInvalid, "sandbox.hosts"),
    ("", "[sandbox]\nread = [\"etc\"]", ManifestInvalid, "sandbox.read"),
    (
        "",
        "[channel.webhook]\nscheme = \"github\"\nsecret_field = \"key\"",
        ManifestInvalid,
        "channel.webhook.secret_field",
    ),
];

/// PL-06, PL-08, PL-92
#[test]
fn each_fault_of_a_manifest_has_its_code_file_and_field() {
    let home = TempDir::new().unwrap();
    let folder = home.path().join("sample");

    for (from, to, code, field) in FAULTS {
        write(&folder, &manifest(&[(from, to)]));
        let fault = load(&folder).map(|package| package.manifest).unwrap_err();
        assert_eq!(
            (fault.0, fault.1.as_str(), fault.2.as_str()),
            (code, "plugin.toml", field),
            "{from:?} {to:?}"
        );
    }
    write(&folder, &manifest(&[("", "[config]\nschema = \"schema.json\"")]));
    fs::write(folder.join("schema.json"), "{").unwrap();
    assert_eq!(load(&folder).unwrap_err(), (SchemaInvalid, "schema.json".into(), String::new()));
    write(&folder, &manifest(&[("main.js", "link.js")]));
    symlink("/etc/passwd", folder.join("link.js")).unwrap();
    assert_eq!(load(&folder).unwrap_err().0, PathEscape);
    fs::remove_file(folder.join("plugin.toml")).unwrap();
    assert_eq!(load(&folder).unwrap_err(), (ManifestMissing, "plugin.toml".into(), String::new()));
}

#[test]
fn a_manifest_says_what_is_usual_where_it_says_nothing() {
    let read = Manifest::parse(&manifest(&[])).unwrap();

    assert_eq!((read.run.kind, read.memory().0, read.processes()), (RunKind::Js, 64 << 20, 1));
    assert_eq!(read.tools.as_ref().map(|tools| tools.max), Some(64));
    assert_eq!(read.limits.call_timeout.to_string(), "1m");
    let line = Manifest::parse("manifest_version = 1\nkey = \"a\n").unwrap_err();
    assert!(line.reason.contains("(line 2)"), "{line}");
}

/// PL-07, PL-08, PL-92: sources in order; the second of two that want one name fails, and nothing else does.
#[test]
fn one_bad_plugin_keeps_no_other_from_being_loaded() {
    let home = TempDir::new().unwrap();
    let path = |name: &str| home.path().join(name);
    write(&path("paths/good"), &manifest(&[]));
    write(&path("paths/bad"), &manifest(&[("1.2.3", "x")]));
    write(&path("paths/same-key"), &manifest(&[("namespace = \"sample\"", "namespace = \"b\"")]));
    write(&path("paths/same-space"), &manifest(&[("key = \"sample\"", "key = \"other\"")]));
    let tool = [
        ("key = \"sample\"", "key = \"tool\""),
        ("namespace = \"sample\"", "namespace = \"bash\""),
    ];
    write(&path("paths/tool"), &manifest(&tool));
    let team = [
        ("key = \"sample\"", "key = \"team-name\""),
        ("namespace = \"sample\"", "namespace = \"shop\""),
    ];
    write(&path("paths/zteam"), &manifest(&team));
    write(&path("single"), &manifest(&[("sample", "single")]));
    let sources = Sources {
        installed: path("plugins"),
        development: vec![path("paths"), path("single"), path("nowhere")],
        reserved: BTreeSet::from(["bash".to_owned()]),
        teams: BTreeSet::from(["shop".to_owned()]),
        signatures: Signatures::Warn,
    };

    let loaded = Loaded::read(&sources, &Lock::default());

    let keys: Vec<_> = loaded.packages.keys().map(|key| key.as_str()).collect();
    assert_eq!(keys, ["dates", "echo-channel", "guard", "http", "sample", "single"]);
    let failed: Vec<_> =
        loaded.failed.iter().map(|failed| (failed.name.as_str(), failed.fault.code)).collect();
    assert_eq!(
        failed,
        [
            ("bad", FaultCode::ManifestInvalid),
            ("same-key", FaultCode::KeyTaken),
            ("same-space", FaultCode::NamespaceTaken),
            ("tool", FaultCode::NamespaceReserved),
            ("zteam", FaultCode::NamespaceTaken),
        ]
    );
}

/// PL-17, PL-18, PL-21, PL-40, PL-96: what was agreed to is bound by its digest, and what is asked for besides is told.
#[test]
fn an_installed_plugin_is_the_one_that_was_agreed_to() {
    let home = TempDir::new().unwrap();
    let depot = depot(home.path());
    let folder = home.path().join("source");
    write(&folder, &manifest(&[]));
    fs::create_dir(folder.join(".git")).unwrap();
    fs::write(folder.join(".git/config"), "left out").unwrap();

    let staged = depot.stage(&archive::pack(&folder).unwrap()).unwrap();
    assert_eq!(depot.beyond(&staged).unwrap(), None);
    depot.install(staged, "a folder").unwrap();

    let place = home.path().join("plugins/sample");
    let package = depot.catalogue().get("sample").unwrap();
    assert_eq!(package.origin, Origin::Installed);
    assert!(package.verify().is_ok() && !place.join(".git").exists());

    fs::write(place.join("main.js"), "export { };\n").unwrap();
    assert_eq!(package.verify().unwrap_err().code, FaultCode::DigestMismatch);
    let loaded = depot.reload();
    assert_eq!(loaded.failed[0].fault.code, FaultCode::DigestMismatch);
    let stand_in = depot.catalogue().get("sample").unwrap();
    assert_eq!((&stand_in.manifest, &stand_in.digest), (&package.manifest, &package.digest));
    assert!(stand_in.fault.is_some() && stand_in.verify().is_err());
    fs::write(place.join("plugin.toml"), "key = 5").unwrap();
    assert_eq!(depot.reload().packages["sample"].manifest, package.manifest);
    fs::rename(&place, home.path().join("away")).unwrap();
    assert!(depot.reload().packages["sample"].verify().is_err());
    fs::rename(home.path().join("away"), &place).unwrap();
    fs::write(place.join("plugin.toml"), manifest(&[])).unwrap();
    let other = depot.approve("sample", Some("another digest"));
    assert!(matches!(other, Err(DepotError::OtherDigest(_))));
    depot.approve("sample", None).unwrap();
    assert!(depot.catalogue().get("sample").unwrap().verify().is_ok());

    let more = [
        ("1.2.3", "1.3.0"),
        ("", "[sandbox]\nnetwork = \"broker\"\nhosts = [\"a.example\"]\n[limits]\nprocesses = 2"),
    ];
    write(&folder, &manifest(&more));
    let staged = depot.stage(&archive::pack(&folder).unwrap()).unwrap();
    let beyond = depot.beyond(&staged).unwrap().unwrap();
    assert_eq!(beyond, ["network: reaches `a.example`", "processes: 2 instead of 1"]);
    depot.install(staged, "a folder").unwrap();
    let lock = Lock::read(&home.path().join("plugins")).unwrap();
    let locked = &lock.plugins["sample"];
    assert_eq!((locked.version.as_str(), &locked.former), ("1.3.0", &None));
    write(&folder, &manifest(&[("1.2.3", "1.4.0")]));
    let less = depot.stage(&archive::pack(&folder).unwrap()).unwrap();
    assert_eq!(depot.beyond(&less).unwrap(), Some(Vec::new()));
    drop(less);

    depot.uninstall("sample").unwrap();
    assert!(depot.catalogue().get("sample").is_none());
    assert!(matches!(depot.uninstall("sample"), Err(DepotError::Unknown(_))));
    let left: Vec<_> = fs::read_dir(home.path().join("plugins")).unwrap().flatten().collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

/// PL-18, PL-40: what was agreed to is known while the file that says so cannot be read or is gone, and nobody is asked
/// about what an operator took away.
#[test]
fn a_lock_file_that_is_lost_takes_no_plugin_away() {
    let home = TempDir::new().unwrap();
    let first = depot(home.path());
    let folder = home.path().join("source");
    write(&folder, &manifest(&[]));
    first.install(first.stage(&archive::pack(&folder).unwrap()).unwrap(), "a folder").unwrap();
    let file = home.path().join("plugins/plugins.lock");
    let good = fs::read_to_string(&file).unwrap();

    for lose in [|file: &Path| fs::write(file, "{"), |file: &Path| fs::remove_file(file)] {
        lose(&file).unwrap();
        let reloaded = first.reload().packages.contains_key("sample");
        let anew = depot(home.path()).catalogue().clone();

        assert!(reloaded && first.catalogue().get("sample").is_some());
        assert!(anew.get("sample").is_none() && anew.get("guard").is_some());
        assert!(!anew.was_taken_away("sample"));
        assert!(matches!(fs::read_to_string(&file).as_deref(), Ok("{") | Err(_)));
    }
    fs::write(&file, good).unwrap();
    first.uninstall("sample").unwrap();
    let next = depot(home.path());
    assert!(next.catalogue().get("sample").is_none() && next.catalogue().was_taken_away("sample"));
    next.install(next.stage(&archive::pack(&folder).unwrap()).unwrap(), "a folder").unwrap();
    assert!(!next.catalogue().was_taken_away("sample"));
}

/// PL-86: a process that ends while it carries out what was decided has not failed.
#[test]
fn an_update_that_is_in_place_already_is_accepted() {
    let home = TempDir::new().unwrap();
    let folder = home.path().join("source");
    write(&folder, &manifest(&[]));
    let first = depot(home.path());
    first.install(first.stage(&archive::pack(&folder).unwrap()).unwrap(), "a folder").unwrap();
    fs::write(folder.join("main.js"), "export const other = 1;\n").unwrap();
    first.hold(first.stage(&archive::pack(&folder).unwrap()).unwrap(), "a folder").unwrap();
    let held = first.lock().unwrap().held["sample"].clone();

    first.accept("sample", &held).unwrap();
    let again = depot(home.path()).accept("sample", &held).unwrap();

    assert_eq!(again.packages["sample"].digest, held.digest);
    assert_eq!(first.lock().unwrap().plugins["sample"].former, None);
}

/// The key pair of RFC 8410.
const PRIVATE: &[u8] = b"-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC
-----END PRIVATE KEY-----
";
const PUBLIC: &str = "-----BEGIN PUBLIC KEY-----
MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=
-----END PUBLIC KEY-----
";

/// PL-08, PL-18, PL-19, PL-92: a signature counts for exactly these files, and only by a trusted key.
#[test]
fn a_signature_is_of_these_files_by_a_trusted_key() {
    let home = TempDir::new().unwrap();
    let folder = home.path().join("source");
    let keys = home.path().join("plugins/keys");
    write(&folder, &manifest(&[]));
    // As some people have it; what is installed has the usual modes.
    fs::set_permissions(folder.join("main.js"), fs::Permissions::from_mode(0o664)).unwrap();
    let depot = |signatures: Signatures| {
        let installed = home.path().join("plugins");
        let depot = Depot::new(installed.clone(), move || Sources {
            installed: installed.clone(),
            signatures,
            ..Sources::default()
        });
        depot.prepare().unwrap();
        depot.reload();
        depot
    };
    let signer = |signatures| {
        let depot = depot(signatures);
        let staged = depot.stage(&archive::pack(&folder).unwrap());
        staged.map(|staged| staged.package().signer.clone()).map_err(|error| match error {
            DepotError::Fault(fault) => (fault.code, fault.file),
            other => panic!("{other}"),
        })
    };
    let refused = |code| Err((code, "plugin.sig".to_owned()));
    let sign = || {
        let digest = digest::of(&Files::Folder(folder.clone()), Extent::Packed).unwrap();
        fs::write(folder.join("plugin.sig"), signature::sign(&digest, PRIVATE).unwrap()).unwrap();
    };

    assert_eq!(signer(Signatures::Warn), Ok(None));
    assert_eq!(signer(Signatures::Require), refused(FaultCode::SignatureMissing));
    sign();
    assert_eq!(signer(Signatures::Warn), Ok(None));
    assert_eq!(signer(Signatures::Require), refused(FaultCode::SignatureBad));
    fs::create_dir_all(&keys).unwrap();
    fs::write(keys.join("note.txt"), "no key").unwrap();
    fs::write(keys.join("ann.pem"), PUBLIC).unwrap();
    for signatures in [Signatures::Warn, Signatures::Require] {
        assert_eq!(signer(signatures), Ok(Some("ann".to_owned())));
    }
    assert_eq!(signer(Signatures::Off), Ok(None));
    fs::write(folder.join("main.js"), "export const other = 1;\n").unwrap();
    assert_eq!(signer(Signatures::Require), refused(FaultCode::SignatureBad));
    fs::write(folder.join("plugin.sig"), "???").unwrap();
    assert_eq!(signer(Signatures::Require), refused(FaultCode::SignatureBad));

    // What is installed is looked at again when it is loaded; the folder of keys is no plugin.
    sign();
    let strict = depot(Signatures::Require);
    strict.install(strict.stage(&archive::pack(&folder).unwrap()).unwrap(), "a folder").unwrap();
    let loaded = strict.reload();
    assert_eq!(loaded.packages["sample"].signer.as_deref(), Some("ann"));
    assert_eq!(loaded.failed, []);
    assert_eq!(strict.lock().unwrap().plugins["sample"].signer.as_deref(), Some("ann"));
    fs::remove_file(keys.join("ann.pem")).unwrap();
    assert_eq!(strict.reload().failed[0].fault.code, FaultCode::SignatureBad);
    assert!(signature::sign("x", PUBLIC.as_bytes()).is_err());
}

fn tar(entries: &[(&str, tar::EntryType, u32, &[u8])]) -> Vec<u8> {
    let mut tar = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::none()));
    for (path, kind, mode, content) in entries {
        let mut header = tar::Header::new_gnu();
        // As a hostile archive would have it: the builder's own check is passed by.
        header.as_mut_bytes()[..path.len()].copy_from_slice(path.as_bytes());
        header.set_entry_type(*kind);
        header.set_mode(*mode);
        header.set_size(content.len() as u64);
        if matches!(kind, tar::EntryType::Symlink | tar::EntryType::Link) {
            header.set_link_name("/etc/passwd").unwrap();
        }
        header.set_cksum();
        tar.append(&header, *content).unwrap();
    }
    tar.into_inner().unwrap().finish().unwrap()
}

fn zip(entries: &[(&str, u32, &[u8])]) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (path, mode, content) in entries {
        let options = zip::write::SimpleFileOptions::default()
            .compression_method(zip::CompressionMethod::Stored)
            .unix_permissions(*mode);
        zip.start_file(*path, options).unwrap();
        zip.write_all(content).unwrap();
    }
    let mut packed = zip.finish().unwrap().into_inner();
    // The writer leaves out what a hostile archive would have: modes of links, and of others' rights.
    let mut at = 0;
    for (_, mode, _) in entries {
        at += packed[at..].windows(4).position(|bytes| bytes == b"PK\x01\x02").unwrap();
        packed[at + 38..at + 42].copy_from_slice(&(mode << 16).to_le_bytes());
        at += 4;
    }
    packed
}

/// A `.tar.gz` of a million folders, made of one piece that is there a thousand times: what it unpacks to is 512 MB.
fn million_entries() -> Vec<u8> {
    let mut header = tar::Header::new_gnu();
    header.set_path("folder/").unwrap();
    header.set_entry_type(tar::EntryType::Directory);
    header.set_mode(0o755);
    header.set_size(0);
    header.set_cksum();
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.flush().unwrap();
    let begin = gzip.get_ref().len();
    gzip.write_all(&header.as_bytes().repeat(1_000)).unwrap();
    gzip.flush().unwrap();
    let (begin, piece) = gzip.get_ref().split_at(begin);
    [begin, &piece.repeat(1_000)].concat()
}

/// PL-17: nothing lies outside, nothing is a link, and there is an end to it.
#[test]
fn an_archive_that_means_harm_leaves_nothing_behind() {
    use tar::EntryType::*;
    let home = TempDir::new().unwrap();
    let depot = depot(home.path());
    let many: Vec<String> = (0..2_001).map(|count| format!("f{count}")).collect();
    let many: Vec<_> = many.iter().map(|path| (path.as_str(), Regular, 0o644, &b""[..])).collect();
    let folders: Vec<String> = (0..4_001).map(|count| format!("f{count}/")).collect();
    let folders: Vec<_> =
        folders.iter().map(|path| (path.as_str(), Directory, 0o755, &b""[..])).collect();
    let large = vec![0; (50 << 20) + 1];
    // A directory of so many entries that reading it would be the harm.
    let entry: &[u8; 46] = &std::array::from_fn(|at| *b"PK\x01\x02".get(at).unwrap_or(&0));
    let directory = [&entry.repeat(1_000_000)[..], b"PK\x05\x06", &[0; 18]].concat();
    let million = million_entries();
    let hostile = [
        tar(&[("../outside", Regular, 0o644, b"x")]),
        tar(&[("/outside", Regular, 0o644, b"x")]),
        tar(&[("link", Symlink, 0o644, b"")]),
        tar(&[("link", Link, 0o644, b"")]),
        tar(&[("device", Char, 0o644, b"")]),
        tar(&[("setuid", Regular, 0o4755, b"x")]),
        tar(&[("twice", Regular, 0o644, b"x"), ("twice", Regular, 0o644, b"x")]),
        tar(&many),
        tar(&folders),
        tar(&[("large", Regular, 0o644, &large)]),
        zip(&[("../outside", 0o644, b"x")]),
        zip(&[("in/../../outside", 0o644, b"x")]),
        zip(&[("/outside", 0o644, b"x")]),
        zip(&[("link", 0o120_777, b"/etc/passwd")]),
        zip(&[("setuid", 0o4755, b"x")]),
        zip(&[("large", 0o644, &large)]),
        b"not an archive".to_vec(),
        tar(&[("a", Regular, 0o644, b"x")])[..20].to_vec(),
    ];

    for (place, packed) in hostile.iter().enumerate() {
        let refused = depot.stage(packed).map(|_| ());
        assert!(matches!(refused, Err(DepotError::Archive(_))), "{place}: {refused:?}");
    }
    for many in [directory, million] {
        let refused = depot.stage(&many).map(|_| ());
        assert!(matches!(refused, Err(DepotError::Archive(ArchiveError::TooLarge))), "{refused:?}");
    }
    let none = depot.stage(&tar(&[("readme", Regular, 0o644, b"x")])).map(|_| ());
    assert!(
        matches!(none, Err(DepotError::Fault(fault)) if fault.code == FaultCode::ManifestMissing)
    );
    let left: Vec<PathBuf> = walk(home.path());
    assert_eq!(left, [home.path().join("plugins")], "{left:?}");

    let text = manifest(&[(
        "kind = \"js\"\nentry = \"main.js\"",
        "kind = \"process\"\ncommand = \"bin/run\"",
    )]);
    let good = zip(&[
        ("sample-1.0/plugin.toml", 0o644, text.as_bytes()),
        ("sample-1.0/bin/run", 0o755, b"#!/bin/sh\n"),
    ]);
    depot.install(depot.stage(&good).unwrap(), "a zip").unwrap();
    let run = home.path().join("plugins/sample/bin/run");
    assert_eq!(fs::metadata(run).unwrap().permissions().mode() & 0o777, 0o755);
}

fn walk(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path());
    let mut found: Vec<PathBuf> = Vec::new();
    for path in entries {
        if path.is_dir() {
            found.extend(walk(&path));
        }
        found.push(path);
    }
    found
}

/// What the documentation shows is a plugin, and the one that `plugin new` writes.
#[test]
fn what_the_documentation_shows_is_a_plugin() {
    let text = include_str!("../../docs/plugins.md");
    let block = |first: &str| {
        let (_, rest) = text.split_once(first).unwrap();
        rest.split_once("\n```").unwrap().0.trim_start().to_owned()
    };
    let home = TempDir::new().unwrap();
    let folder = home.path().join("weather");
    let main = block("```js\n// main.js\n");

    write(&folder, &block("```toml\n# plugin.toml\n"));
    fs::write(folder.join("main.js"), &main).unwrap();

    let package = load(&folder).unwrap();
    assert_eq!(package.schema.secrets(), ["/tools/token"]);
    assert!(include_str!("../cli/commands/plugin/templates/main.js").contains(&main));
}
