//! An OpenHive installation, read once: settings files, rules, folders of teams, tables.

use std::{
    any::{Any, TypeId},
    collections::{BTreeMap, BTreeSet, HashMap},
    fs, io,
    path::{Path, PathBuf},
};

use super::{
    schema::{DERIVED, Record, Table},
    source::{DatabaseCopy, Extra, Source, SourceError, disk},
    yaml::{self, Yaml},
};
use crate::{
    prompt::markdown::{Outline, bullets},
    removal::if_there,
    storage::folder::{self, Found},
};

/// A settings file: what it says, or why it cannot be read. None if there is none.
pub(super) type SettingsFile = Result<Option<Yaml>, String>;

#[derive(Debug)]
pub(super) struct Installation {
    pub(super) config: SettingsFile,
    pub(super) providers: SettingsFile,
    pub(super) channels: SettingsFile,
    /// Rules of the operator, by file name.
    pub(super) rules: BTreeMap<String, Vec<u8>>,
    /// What lies beside the rules and is none.
    pub(super) other_rules: BTreeSet<String>,
    pub(super) folders: BTreeMap<String, TeamFolder>,
    pub(super) tables: Tables,
    pub(super) extras: Vec<Extra>,
}

#[derive(Debug)]
pub(super) struct TeamFolder {
    pub(super) path: PathBuf,
    pub(super) config: SettingsFile,
    /// Links in it, which are not followed.
    pub(super) links: Vec<String>,
    /// Sources of tools that the team wrote, by file name.
    pub(super) plugins: BTreeSet<String>,
    /// Subagents by what they are called, with the skills they list.
    pub(super) subagents: BTreeMap<String, BTreeSet<String>>,
    /// The tools that each skill needs.
    pub(super) skills: BTreeMap<String, BTreeSet<String>>,
}

/// Rows of the database, by their type.
#[derive(Debug, Default)]
pub(super) struct Tables {
    rows: HashMap<TypeId, Box<dyn Any + Send + Sync>>,
    /// How many rows there are in tables that are not read.
    unread: BTreeMap<&'static str, u64>,
}

impl Tables {
    /// All rows of a kind, in the order of their table.
    pub(super) fn of<R: Record>(&self) -> &[R] {
        let rows = self.rows.get(&TypeId::of::<R>()).and_then(|rows| rows.downcast_ref::<Vec<R>>());
        rows.map_or(&[], Vec::as_slice)
    }

    pub(super) fn put<R: Record>(&mut self, rows: Vec<R>) {
        self.rows.insert(TypeId::of::<R>(), Box::new(rows));
    }

    /// How many rows a table has that is not read; none if it has none.
    pub(super) fn unread(&self, table: &str) -> Option<u64> {
        self.unread.get(table).copied().filter(|rows| *rows > 0)
    }

    pub(super) fn leave(&mut self, table: &'static str, rows: u64) {
        self.unread.insert(table, rows);
    }
}

/// Reads a table.
pub(super) struct Reader {
    pub(super) table: Table,
    read: fn(&DatabaseCopy, &mut Tables) -> Result<(), SourceError>,
}

impl Reader {
    pub(super) const fn of<R: Record>() -> Self {
        Self { table: R::TABLE, read: read_rows::<R> }
    }
}

fn read_rows<R: Record>(copy: &DatabaseCopy, tables: &mut Tables) -> Result<(), SourceError> {
    tables.put::<R>(copy.all()?);
    Ok(())
}

impl Installation {
    pub(super) fn read(
        source: &Source,
        readers: &[&Reader],
        with_log: bool,
    ) -> Result<Self, SourceError> {
        let copy = DatabaseCopy::make(source)?;
        let extras = copy.extras(readers.iter().map(|reader| &reader.table))?;
        let mut tables = Tables::default();
        for table in DERIVED {
            tables.leave(table, copy.count(table));
        }
        for Reader { table, read } in readers {
            if with_log || !table.on_request {
                read(&copy, &mut tables)?;
            } else {
                tables.leave(table.name, copy.count(table.name));
            }
        }
        // It holds secrets: no longer than needed.
        drop(copy);
        let file = |name: &str| yaml::read(&source.data.join("config").join(name));
        let (rules, other_rules) = rules(&source.data.join("rules"))?;
        Ok(Self {
            config: file("config.yaml"),
            providers: file("providers.yaml"),
            channels: file("channels.yaml"),
            rules,
            other_rules,
            folders: folders(&source.run.join("teams"))?,
            tables,
            extras,
        })
    }
}

type Rules = (BTreeMap<String, Vec<u8>>, BTreeSet<String>);

fn rules(path: &Path) -> Result<Rules, SourceError> {
    let (mut rules, mut others) = (BTreeMap::new(), BTreeSet::new());
    folder::walk(path, Path::new(""), &mut |place, found| {
        if place.components().count() != 1 {
            return Ok(());
        }
        let name = place.to_string_lossy().into_owned();
        match found {
            Found::File(mut file) if name.ends_with(".md") => {
                io::Read::read_to_end(&mut file, rules.entry(name).or_default())?;
            }
            Found::Unread(error) => return Err(error),
            _ => {
                others.insert(name);
            }
        }
        Ok(())
    })
    .map_err(disk(path))?;
    Ok((rules, others))
}

fn folders(path: &Path) -> Result<BTreeMap<String, TeamFolder>, SourceError> {
    let mut folders = BTreeMap::new();
    for entry in if_there(fs::read_dir(path)).map_err(disk(path))?.into_iter().flatten() {
        let entry = entry.map_err(disk(path))?;
        if entry.file_type().map_err(disk(path))?.is_dir() {
            let name = entry.file_name().to_string_lossy().into_owned();
            folders.insert(name, TeamFolder::read(&entry.path())?);
        }
    }
    Ok(folders)
}

impl TeamFolder {
    fn read(path: &Path) -> Result<Self, SourceError> {
        let mut folder = Self {
            path: path.to_owned(),
            config: yaml::read(&path.join("config.yaml")),
            links: Vec::new(),
            plugins: BTreeSet::new(),
            subagents: BTreeMap::new(),
            skills: BTreeMap::new(),
        };
        folder::walk(path, Path::new(""), &mut |place, found| match found {
            Found::Unread(error) => Err(folder::at(place, &error)),
            found => {
                folder.note(place, found);
                Ok(())
            }
        })
        .map_err(disk(path))?;
        Ok(folder)
    }

    fn note(&mut self, place: &Path, found: Found) {
        let name = place.to_string_lossy();
        let file = match found {
            Found::Folder | Found::Unread(_) => return,
            Found::Link(_) => return self.links.push(name.into_owned()),
            Found::File(file) => file,
        };
        match name.split_once('/') {
            Some(("plugins", rest)) => {
                self.plugins.insert(rest.to_owned());
            }
            Some((kind @ ("subagents" | "skills"), rest)) => {
                let Some(stem) = rest.strip_suffix(".md").filter(|stem| !stem.contains('/')) else {
                    return;
                };
                let text = io::read_to_string(file).unwrap_or_default();
                let outline = Outline::of(&text);
                let listed = |section| outline.section(section).map(bullets).unwrap_or_default();
                if kind == "skills" {
                    let tools = listed("Required Tools");
                    self.skills.insert(stem.to_owned(), tools.into_iter().collect());
                } else {
                    let title = outline.title.and_then(|title| title.strip_prefix("Agent:"));
                    let name = title.map(str::trim).filter(|name| !name.is_empty());
                    let skills = listed("Skills").into_iter().collect();
                    self.subagents.insert(name.unwrap_or(stem).to_owned(), skills);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn a_folder_is_read_without_following_links() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path();
        for (name, text) in [
            ("config.yaml", "name: research\n"),
            ("plugins/lookup.ts", "export const x = 1;"),
            ("subagents/scout.md", "# Agent: Scout\n## Role\nLooks.\n## Skills\n- dig: finds\n"),
            ("subagents/plain.md", "Does things.\n"),
            (
                "skills/dig.md",
                "# Skill: dig\n## Required Tools\n- lookup: finds\n- web_fetch\n## Steps\n- no\n",
            ),
        ] {
            let file = path.join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        std::os::unix::fs::symlink("/etc/passwd", path.join("notes")).unwrap();

        let folder = TeamFolder::read(path).unwrap();

        assert_eq!(folder.links, ["notes"]);
        assert_eq!(folder.plugins, ["lookup.ts".to_owned()].into());
        assert_eq!(folder.subagents["Scout"], ["dig".to_owned()].into());
        assert!(folder.subagents["plain"].is_empty());
        let tools = ["lookup".to_owned(), "web_fetch".to_owned()];
        assert_eq!(folder.skills["dig"], tools.into());
        assert!(folder.config.unwrap().is_some());
    }
}
