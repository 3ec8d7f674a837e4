//! An OpenHive installation in a folder of its own.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::SystemTime,
};

use rusqlite::Connection;
use tempfile::TempDir;

use crate::fake_model::KEY;

const SCHEMA: &str = include_str!("../../fixtures/openhive/schema.sql");
const ROWS: &str = include_str!("../../fixtures/openhive/rows.sql");

/// When most of it was made.
pub(crate) const OLD: &str = "2026-01-15T08:30:00.000Z";

/// The folders of an installation whose program is stopped.
pub(crate) struct Installation(TempDir);

impl Installation {
    /// A small organisation that asks its model at this address.
    pub(crate) fn new(model: &str) -> Self {
        let this = Self::empty(SCHEMA);
        let now = format!("{:.3}", jiff::Timestamp::now());
        let rows = ROWS.replace("{now}", &now).replace("{old}", OLD);
        this.database().execute_batch(&rows).unwrap();
        let providers = format!(
            "profiles:\n  default:\n    type: api\n    provider: anthropic\n    api_url: {model}\n    \
             api_key: {KEY}\n  spare: {{type: oauth, oauth_token_env: CLAUDE_TOKEN}}\n"
        );
        for (path, text) in [
            ("data/config/config.yaml", "log_level: warn\n"),
            ("data/config/providers.yaml", &*providers),
            (
                "data/config/channels.yaml",
                "ws: {enabled: true}\ntrust: {default_policy: deny, channels: {ws: {policy: allow}}}\n",
            ),
            ("data/rules/house.md", "# House\nBe kind.\n"),
            (
                "run/teams/main/config.yaml",
                "name: main\nallowed_tools: [\"*\"]\nprovider_profile: default\nmaxSteps: 200\n",
            ),
            ("run/teams/main/team-rules/tone.md", "# Tone\nBe short.\n"),
            (
                "run/teams/research/config.yaml",
                "name: research\nparent: main\ndescription: Reads papers\nprovider_profile: default\n\
                 maxSteps: 80\nallowed_tools: [Read, Write, memory_save]\n\
                 credentials: {ARCHIVE_KEY: archive-key-0123456789}\n",
            ),
            ("run/teams/research/team-rules/team-context.md", "# Context\nPapers.\n"),
            (
                "run/teams/research/subagents/scout.md",
                "# Agent: scout\n## Role\nLooks around.\n## Boundaries\nNone.\n",
            ),
            (
                "run/teams/research/skills/dig.md",
                "# Skill: dig\n## Purpose\nDigs.\n## Required Tools\n- lookup\n",
            ),
            ("run/teams/research/plugins/lookup.ts", "export const description = 'x';\n"),
            ("run/teams/research/notes/list.txt", "one\ntwo\n"),
            (
                "run/teams/api/config.yaml",
                "name: api\nallowed_tools: []\nprovider_profile: default\n",
            ),
        ] {
            this.write(path, text);
        }
        std::os::unix::fs::symlink("/etc/hostname", this.path("run/teams/research/host")).unwrap();
        this
    }

    /// Nothing but a database with these tables.
    pub(crate) fn empty(schema: &str) -> Self {
        let this = Self(tempfile::tempdir().unwrap());
        for folder in ["data/config", "data/rules", "run/teams"] {
            fs::create_dir_all(this.path(folder)).unwrap();
        }
        this.database().execute_batch(schema).unwrap();
        this
    }

    /// The usual tables.
    pub(crate) fn schema() -> &'static str {
        SCHEMA
    }

    pub(crate) fn path(&self, inner: &str) -> PathBuf {
        self.0.path().join(inner)
    }

    pub(crate) fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// The database, as the program has it open.
    pub(crate) fn database(&self) -> Connection {
        let connection = Connection::open(self.path("run/openhive.db")).unwrap();
        connection.pragma_update(None, "journal_mode", "WAL").unwrap();
        connection
    }

    /// The command that imports it.
    pub(crate) fn import(&self, more: &[&str]) -> Vec<String> {
        let mut words = ["import", "openhive", "--data", "DATA", "--run", "RUN"].map(str::to_owned);
        words[3] = self.path("data").to_str().unwrap().to_owned();
        words[5] = self.path("run").to_str().unwrap().to_owned();
        words.into_iter().chain(more.iter().map(|word| (*word).to_owned())).collect()
    }

    /// Everything that is there: what it is, what it holds, when it was last changed.
    pub(crate) fn state(&self) -> BTreeMap<PathBuf, (u32, Vec<u8>, SystemTime)> {
        let mut state = BTreeMap::new();
        look(self.0.path(), &mut state);
        state
    }
}

fn look(folder: &Path, state: &mut BTreeMap<PathBuf, (u32, Vec<u8>, SystemTime)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let found = fs::symlink_metadata(&path).unwrap();
        let content = if found.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
        let changed = found.modified().unwrap();
        state.insert(path.clone(), (found.mode(), content, changed));
        if found.is_dir() {
            look(&path, state);
        }
    }
}
