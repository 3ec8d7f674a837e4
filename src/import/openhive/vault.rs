//! Vault: secrets and values that teams keep, and secrets of the settings files.

use std::collections::BTreeSet;

use super::{
    names,
    plan::{Artifact, Planner, Refusal, Team, VaultEntry},
    report::Kind,
    schema::{mark, row},
};
use crate::{
    settings::secret::Secret,
    vault::{
        entry::most_entries,
        limit::{LARGEST_VALUE, SHORTEST_SECRET},
        scope::Scope,
    },
};

pub(super) const KIND: Kind = Kind::listed("vault");

row! {
    /// Something a team keeps: a secret, or a note to itself.
    VaultRow in "team_vault" by "id" known by id of team {
        id: i64,
        team: String as "team_name",
        key: String,
        value: String,
        secret: Option<bool> as "is_secret",
        created_at: String,
        updated_at: String,
    } unread ["updated_by"]
}

impl VaultRow {
    /// A journal of the learning and reflection cycles, which is no secret and no setting.
    pub(super) fn is_journal(&self) -> bool {
        self.key.starts_with("learning:") || self.key.starts_with("reflection:")
    }
}

struct Candidate<'a> {
    key: &'a str,
    value: Secret,
    is_secret: bool,
    mark: String,
    /// Where it comes from, if not from a vault.
    origin: Option<&'static str>,
}

/// Plans the vault of a team: the credentials of its file, which count first, and its rows. Journals in
/// it become memories.
pub(super) fn plan(planner: &mut Planner<'_>, team: &Team<'_>, credentials: &[(String, Secret)]) {
    let of_file = credentials.iter().map(|(key, value)| Candidate {
        key,
        value: value.clone(),
        is_secret: true,
        mark: mark("credentials", format!("{}/{key}", team.former), ""),
        origin: Some("from `credentials` in `config.yaml`"),
    });
    let in_file = |key: &str| credentials.iter().any(|(other, _)| other == key);
    let rows = planner.found.tables.of::<VaultRow>().iter().filter(|row| row.team == team.former);
    let of_rows = rows.filter(|row| !row.is_journal() && !in_file(&row.key)).map(|row| Candidate {
        key: &row.key,
        value: Secret::new(row.value.clone()),
        // What nobody said to be harmless is not shown to models.
        is_secret: row.secret.unwrap_or(true),
        mark: row.mark(),
        origin: None,
    });
    plan_entries(planner, Scope::Team(team.key.clone()), team.former, of_file.chain(of_rows));
}

/// Plans a secret of a settings file.
pub(super) fn plan_setting(planner: &mut Planner<'_>, key: &str, value: &Secret) {
    let (value, mark) = (value.clone(), mark("settings", key, ""));
    let candidate = Candidate { key, value, is_secret: true, mark, origin: None };
    plan_entries(planner, Scope::System, "system", [candidate]);
}

fn plan_entries<'a>(
    planner: &mut Planner<'_>,
    scope: Scope,
    team: &str,
    candidates: impl IntoIterator<Item = Candidate<'a>>,
) {
    let mut used = BTreeSet::new();
    for Candidate { key: former, value, is_secret, mark, origin } in candidates {
        let conversion = accept(&scope, former, &value, is_secret, &used).map(|key| {
            used.insert(key.clone());
            if is_secret {
                planner.redactor.add(&value, &key);
            }
            let renamed = (key != former).then(|| format!("its key is `{key}`"));
            let changes = renamed.into_iter().chain(origin.map(str::to_owned)).collect();
            (Artifact::Secret(VaultEntry { scope: scope.clone(), key, value, is_secret }), changes)
        });
        planner.take(KIND, Some(team), former, mark, conversion.map_err(Refusal::from));
    }
}

/// The key of an entry here, or why the vault does not take it.
fn accept(
    scope: &Scope,
    former: &str,
    value: &Secret,
    is_secret: bool,
    used: &BTreeSet<String>,
) -> Result<String, String> {
    let (length, most) = (value.expose().len(), most_entries(scope));
    if length == 0 {
        return Err("it is empty".into());
    }
    if length > LARGEST_VALUE {
        return Err(format!("it has {length} bytes, and the vault takes {LARGEST_VALUE}"));
    }
    if is_secret && length < SHORTEST_SECRET {
        return Err("a secret needs at least 8 bytes, or it could not be kept out of texts; \
                    set a longer one with `hivewright vault set`"
            .into());
    }
    let key = names::vault_key(former);
    if used.contains(&key) {
        return Err(format!("the key `{key}` is used already"));
    }
    if used.len() >= most {
        return Err(format!("a vault has at most {most} entries"));
    }
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn convert(key: &str, value: &str, is_secret: bool) -> Result<String, String> {
        accept(&Scope::System, key, &Secret::new(value.into()), is_secret, &BTreeSet::new())
    }

    /// OR-29, MV-35
    #[test]
    fn what_the_vault_does_not_take_is_told_without_its_value() {
        let short = convert("PIN", "s3cr3t!", true).unwrap_err();
        let large = convert("BLOB", &"x".repeat(70_000), true).unwrap_err();

        assert!(short.contains("8 bytes") && !short.contains("s3cr3t"), "{short}");
        assert!(large.contains("65536"), "{large}");
        assert!(convert("count", "7", false).is_ok());
        assert_eq!(convert("a b", "12345678", true).unwrap(), "a-b");
    }
}
