//! Plugin catalogue: which packages there are, read from all sources in order.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use hivewright_actors::{hook::HookEvent, ids::PluginKey};
use tokio::sync::watch;

use super::{
    check::{self, KEYS},
    fault::{Fault, FaultCode},
    loading::{changed, missing},
    lock::Lock,
    manifest::{MANIFEST, Manifest},
    package::{Files, Origin, Package},
    schema::Schema,
    shipped::SHIPPED,
    signature,
};
use crate::settings::config::Signatures;

/// A package that was not loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// The name of its folder.
    pub name: String,
    pub files: Files,
    pub origin: Origin,
    pub fault: Fault,
}

/// What was found when the sources were last read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Loaded {
    /// With stand-ins for those that are not what was agreed to or cannot be read any more: none of those starts.
    pub packages: BTreeMap<PluginKey, Arc<Package>>,
    pub failed: Vec<Failed>,
    /// The keys of those that an operator took away.
    pub taken_away: BTreeSet<String>,
}

/// Where packages come from, and the names that none may have.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// Where installed ones are.
    pub installed: PathBuf,
    /// Folders of packages that are worked on; each is a package or holds some.
    pub development: Vec<PathBuf>,
    /// Namespaces that are names of tools.
    pub reserved: BTreeSet<String>,
    /// Namespaces that are names of teams.
    pub teams: BTreeSet<String>,
    pub signatures: Signatures,
}

impl Sources {
    /// The name of the trusted key that has signed an installed package. That none has is a fault where one must. It blocks.
    pub(super) fn signer(&self, package: &Package) -> Result<Option<String>, Fault> {
        let is_required = self.signatures == Signatures::Require;
        if self.signatures == Signatures::Off {
            return Ok(None);
        }
        match signature::signer(&package.files, &package.digest, &self.installed.join(KEYS)) {
            Ok(None) if is_required => Err(signature::missing()),
            Err(fault) if !is_required => {
                tracing::warn!(plugin = %package.manifest.key, error = %fault, "a signature does not count; the plugin is loaded as unsigned");
                Ok(None)
            }
            signer => signer,
        }
    }
}

/// The packages that there are. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Catalogue(Arc<watch::Sender<Arc<Loaded>>>);

impl Catalogue {
    pub fn get(&self, key: &str) -> Option<Arc<Package>> {
        self.0.borrow().packages.get(key).cloned()
    }

    /// Whether an operator took a plugin away: one that is not there otherwise may be missed.
    pub fn was_taken_away(&self, key: &str) -> bool {
        self.0.borrow().taken_away.contains(key)
    }

    /// Whether a plugin's tools have this name before theirs.
    pub fn has_namespace(&self, name: &str) -> bool {
        let loaded = self.0.borrow();
        let mut tools =
            loaded.packages.values().filter_map(|package| package.manifest.tools.as_ref());
        tools.any(|tools| tools.namespace == name)
    }

    pub fn now(&self) -> Arc<Loaded> {
        self.0.borrow().clone()
    }

    /// Tells whenever the packages have changed.
    pub fn changes(&self) -> watch::Receiver<Arc<Loaded>> {
        self.0.subscribe()
    }

    /// Replaces what is known by what was found. Nobody is told of what is as it was.
    pub fn set(&self, loaded: Loaded) {
        self.0.send_if_modified(|known| {
            let has_changed = **known != loaded;
            if has_changed {
                *known = Arc::new(loaded);
            }
            has_changed
        });
    }
}

impl Loaded {
    /// Reads all sources: what comes with the release, what is installed, what is worked on; by key within
    /// each. One that is wrong is named and keeps no other from being loaded. It blocks.
    pub fn read(sources: &Sources, lock: &Lock) -> Self {
        let mut loaded = Self { taken_away: lock.taken_away.clone(), ..Self::default() };
        for (name, files) in SHIPPED {
            loaded.add(name, Files::Embedded(files), Origin::Shipped, sources, lock);
        }
        let is_package = |folder: &PathBuf| !folder.ends_with(KEYS);
        for folder in folders(&sources.installed).into_iter().filter(is_package) {
            loaded.add(&name(&folder), Files::Folder(folder), Origin::Installed, sources, lock);
        }
        for (name, locked) in &lock.plugins {
            let folder = sources.installed.join(name);
            loaded.stand_in(&locked.manifest, &locked.digest, folder, Origin::Installed);
        }
        for folder in &sources.development {
            let each =
                if folder.join(MANIFEST).exists() { vec![folder.clone()] } else { folders(folder) };
            for folder in each {
                loaded.add(
                    &name(&folder),
                    Files::Folder(folder),
                    Origin::Development,
                    sources,
                    lock,
                );
            }
        }
        // A folder that the settings do not name any more is nobody's work.
        let is_named = |folder: &Path| {
            let mut named = sources.development.iter();
            named.any(|named| folder == named || folder.parent() == Some(named.as_path()))
        };
        for (folder, manifest) in lock.development.iter().filter(|(folder, _)| is_named(folder)) {
            loaded.stand_in(manifest, "", folder.clone(), Origin::Development);
        }
        loaded
    }

    /// What an operator has agreed to is among it.
    pub(super) fn has_installed(&self) -> bool {
        self.packages.values().any(|package| package.origin == Origin::Installed)
    }

    /// The packages that are worked on and guard calls, as each said of itself last.
    pub(super) fn guards_at_work(&self) -> BTreeMap<PathBuf, Manifest> {
        let guards = |package: &&Arc<Package>| {
            let mut hooks = package.manifest.hooks().iter();
            package.origin == Origin::Development
                && hooks.any(|hook| hook.event == HookEvent::ToolBefore)
        };
        let of = |package: &Arc<Package>| {
            Some((package.files.folder()?.to_owned(), package.manifest.clone()))
        };
        self.packages.values().filter(guards).filter_map(of).collect()
    }

    fn add(&mut self, name: &str, files: Files, origin: Origin, sources: &Sources, lock: &Lock) {
        let package = Package::load(files.clone(), origin).and_then(|mut package| {
            self.fits(name, &package, sources)?;
            let locked = lock.plugins.get(name);
            let is_agreed = locked.is_some_and(|locked| locked.allows(&package.digest));
            if origin == Origin::Installed {
                if !is_agreed {
                    return Err(changed());
                }
                package.signer = sources.signer(&package)?;
            }
            Ok(package)
        });
        match package {
            Ok(package) => {
                self.packages.insert(package.manifest.key.clone(), Arc::new(package));
            }
            Err(fault) => {
                tracing::warn!(plugin = name, error = %fault, "a plugin is not loaded");
                self.failed.push(Failed { name: name.to_owned(), files, origin, fault });
            }
        }
    }

    /// Puts what a package was in its place if it is not there, or not as it was: never started, but what its hooks guard
    /// stays guarded until its files are put right or agreed to, or an operator switches it off or takes it away.
    fn stand_in(&mut self, manifest: &Manifest, digest: &str, folder: PathBuf, origin: Origin) {
        if self.packages.contains_key(&manifest.key) {
            return;
        }
        let mut failed = self.failed.iter();
        let failed = failed.find(|failed| failed.files.folder() == Some(folder.as_path()));
        let fault = failed.map_or_else(missing, |failed| failed.fault.clone());
        let package = Package {
            manifest: manifest.clone(),
            files: Files::Folder(folder),
            digest: digest.to_owned(),
            origin,
            signer: None,
            schema: Schema::default(),
            fault: Some(fault),
        };
        self.packages.insert(manifest.key.clone(), Arc::new(package));
    }

    /// Its names are its own.
    fn fits(&self, name: &str, package: &Package, sources: &Sources) -> Result<(), Fault> {
        let key = &package.manifest.key;
        if package.origin == Origin::Installed && name != key.as_str() {
            let reason =
                format!("its folder is called `{name}`; it should have the name of its key");
            return Err(check::fault(FaultCode::KeyInvalid, "key", reason));
        }
        match self.packages.get(key) {
            Some(other) => Err(taken(other)),
            None => self.has_own_namespace(package, sources),
        }
    }

    /// A package can be installed beside the others, in the place of an installed one of its key.
    pub(super) fn fits_beside_others(
        &self,
        package: &Package,
        sources: &Sources,
    ) -> Result<(), Fault> {
        match self.packages.get(&package.manifest.key) {
            Some(other) if other.origin != Origin::Installed => Err(taken(other)),
            _ => self.has_own_namespace(package, sources),
        }
    }

    fn has_own_namespace(&self, package: &Package, sources: &Sources) -> Result<(), Fault> {
        let taken =
            |reason| Err(check::fault(FaultCode::NamespaceTaken, "tools.namespace", reason));
        let Some(tools) = &package.manifest.tools else { return Ok(()) };
        let namespace = &tools.namespace;
        if sources.reserved.contains(namespace) {
            return Err(check::reserved(namespace));
        }
        let of_other = |other: &&Arc<Package>| {
            other.manifest.key != package.manifest.key
                && other.manifest.tools.as_ref().is_some_and(|tools| tools.namespace == *namespace)
        };
        if let Some(other) = self.packages.values().find(of_other) {
            return taken(format!("plugin `{}` has it", other.manifest.key));
        }
        if sources.teams.contains(namespace) {
            return taken("a team has this name".to_owned());
        }
        Ok(())
    }
}

fn taken(other: &Package) -> Fault {
    let reason = format!("a plugin of this key is loaded already ({})", other.origin);
    check::fault(FaultCode::KeyTaken, "key", reason)
}

/// The folders in a folder, by name. Hidden ones are none: something is being put there.
fn folders(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| path.is_dir() && !name(path).starts_with('.'))
        .collect();
    found.sort();
    found
}

fn name(folder: &Path) -> String {
    folder.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
