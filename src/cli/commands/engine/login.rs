//! `hivewright engine login`: the profile of a team is given another key.

use serde_json::json;
use zeroize::Zeroizing;

use crate::{
    api::models::{ModelTrial, ModelTried},
    cli::{
        blocking::blocking,
        commands::init::{keep, model::check_key},
        context::Context,
        failure::{Exit, Failure},
        notice::notice,
        prompt::{self, confirm},
        screen::complain,
    },
    doctor::models::try_out,
    settings::{
        assign::assign,
        document::Document,
        effective::{Changed, changed},
        home::Home,
        load::{self, File, ServiceFile, read_team, team_names},
        providers::{self, Profile, Provider},
        references::{Environment, References},
        replace::{replace, text},
    },
    text::no_such,
};

const FILE: ServiceFile = ServiceFile::Providers;

/// The profile of a team, and where its key is kept from now on.
#[derive(Debug, PartialEq)]
struct Place {
    profile: Profile,
    /// The entry of the vault.
    entry: String,
    /// `providers.yaml` as it is, and as it refers to that entry.
    before: String,
    after: String,
    /// Where the model is stands in a reference, which nobody here can follow for sure.
    is_elsewhere: bool,
}

pub(super) async fn run(team: &str, context: &Context) -> Result<(), Failure> {
    let (home, name) = (context.own_home()?, team.to_owned());
    let place = blocking(move || find(&home, &name)).await?;
    let Place { profile, entry, before, after, .. } = &place;
    let question =
        format!("Key of {} for profile `{}`, which is not shown: ", profile.provider, profile.name);
    let key = blocking(move || ask(&question)).await?;
    try_key(&place, &key, context).await?;
    // First: settings whose secret is not there would be refused by a service that reads them at once.
    keep(entry, &key, context).await?;
    let fields = changed(before, after);
    write(&context.home, before, after)?;
    tell(team, &place, &fields, context)
}

/// Blocks.
fn find(home: &Home, team: &str) -> Result<Place, Failure> {
    let invalid = |error: &dyn ToString| Failure::new(Exit::Settings, error.to_string());
    let teams = team_names(home);
    if !teams.iter().any(|name| name == team) {
        let teams: Vec<&str> = teams.iter().map(String::as_str).collect();
        return Err(Failure::not_found(no_such("team", team, &teams)));
    }
    let team = read_team(home, team).map_err(|problems| invalid(&problems))?;
    let path = FILE.path(home);
    let before = text(&path).unwrap_or_default();
    // A key that cannot be found is why somebody is here.
    let document = Document::with_references(&path.display().to_string(), References::unfollowed());
    let providers = providers::read(&before, document, &Environment::fixed([])).0;
    let providers = providers.map_err(|problems| invalid(&problems))?;
    if providers.demo {
        let command = if path.exists() { "config edit providers" } else { "init" };
        return Err(Failure::not_found(format!(
            "no model is connected, so that there is nothing that a key could be for: `hivewright {command}` connects one, \
             and so does Settings, Models in the page"
        )));
    }
    let profile = providers.choose(&team.provider_profile, team.model.as_deref());
    let profile = profile.map_err(|error| invalid(&error))?;
    let place = place(profile, before)?;
    load::validate(home, &File::Service(FILE), &place.after)
        .map_err(|problems| invalid(&problems))?;
    Ok(place)
}

fn place(profile: Profile, before: String) -> Result<Place, Failure> {
    let name = &profile.name;
    if profile.provider == Provider::Offline {
        return Err(Failure::usage(format!("profile `{name}` is the demo, which needs no key")));
    }
    let said = changed("", &before);
    let says = |key: &str| {
        let path = format!("profiles.{name}.{key}");
        said.iter().find(|setting| setting.path == path)?.after.as_str()
    };
    let kept = says("api_key")
        .and_then(|key| key.strip_prefix("${vault:")?.strip_suffix('}'))
        .filter(|entry| !entry.contains(['$', '{', '}']));
    let (entry, after) = match kept {
        Some(entry) => (entry.to_owned(), before.clone()),
        None => {
            let entry = format!("model-{name}");
            let path = format!("profiles.{name}.api_key");
            let after =
                assign(&before, &path, &format!("${{vault:{entry}}}")).map_err(|error| {
                    Failure::failed(format!(
                        "`{path}`: {error}; `hivewright config edit {FILE}` opens it"
                    ))
                })?;
            (entry, after)
        }
    };
    let is_elsewhere = says("api_url").is_some_and(|url| url.contains("${"));
    Ok(Place { profile, entry, before, after, is_elsewhere })
}

/// Blocks.
fn ask(question: &str) -> Result<Zeroizing<String>, Failure> {
    let typed = prompt::secret(question)?;
    let typed = Zeroizing::new(String::from_utf8_lossy(&typed).trim().to_owned());
    check_key(&typed).map_err(|fault| Failure::usage(format!("{fault}; nothing was changed")))?;
    Ok(typed)
}

/// Has the model answer once. A key that it does not answer to is kept only if the person wants that.
async fn try_key(place: &Place, key: &str, context: &Context) -> Result<(), Failure> {
    let Profile { name, provider, api_url, model, .. } = &place.profile;
    if place.is_elsewhere {
        context
            .screen
            .remark(&format!("· it was not tried: `api_url` of profile `{name}` is a reference"));
        return Ok(());
    }
    context.screen.remark("· asking the model …");
    let trial = ModelTrial {
        provider: *provider,
        api_url: api_url.clone(),
        api_key: Some(key.to_owned()),
        model: Some(model.clone()),
    };
    let why = match try_out(&trial).await {
        Ok(ModelTried { answer: Some(_), .. }) => {
            context.screen.remark(&format!("· `{model}` answered"));
            return Ok(());
        }
        Ok(ModelTried { error, .. }) => error.unwrap_or_default(),
        Err(error) => error.to_string(),
    };
    let what = format!("`{model}` did not answer: {why}");
    if context.yes {
        complain(&what);
    }
    confirm(context, &what, "Keep this key all the same?")
}

fn write(home: &Home, before: &str, after: &str) -> Result<(), Failure> {
    if before == after {
        return Ok(());
    }
    let path = FILE.path(home);
    if text(&path).ok().as_deref() != Some(before) {
        let shown = path.display();
        let message = format!("`{shown}` was changed meanwhile and stays as it is; run it again");
        return Err(Failure::new(Exit::Conflict, message));
    }
    replace(&path, &File::Service(FILE).beside(home), after).map_err(Failure::unwritable(&path))
}

fn tell(team: &str, place: &Place, fields: &[Changed], context: &Context) -> Result<(), Failure> {
    let (screen, Place { profile, entry, .. }) = (context.screen, place);
    let name = &profile.name;
    if screen.json {
        let data = json!({"team": team, "profile": name, "entry": entry, "fields": fields});
        return screen.document(&json!({ "data": data }));
    }
    screen.remark(&format!("the key of profile `{name}` is in the vault as `{entry}`"));
    if !fields.is_empty() {
        screen.remark(&format!("{FILE}.yaml refers to it there"));
    }
    screen.remark(&match notice(&context.home)? {
        Some(_) => format!(
            "work that waited for it goes on; {} has work go on that waits for the same key",
            context.command(&format!("teams resume {team}"))
        ),
        None => format!("next: {}", context.command("serve")),
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(file: &str) -> Result<(String, String), Failure> {
        let profile = Profile::new("default", Provider::Anthropic);
        place(profile, file.to_owned()).map(|place| (place.entry, place.after))
    }

    /// EN-98: the key goes where the file says, if that is the vault; otherwise the file says so from then on.
    #[test]
    fn a_key_goes_into_the_vault() {
        let file = |key: &str| format!("# ours\nprofiles:\n  default:\n    api_key: {key} # it\n");
        let entry = "model-default".to_owned();
        let there = file("${vault:model-default}");

        for key in ["${env:KEY}", "${file:secrets/key}", "sk-plain", "a${vault:x}${vault:y}"] {
            assert_eq!(found(&file(key)), Ok((entry.clone(), there.clone())), "{key}");
        }
        assert_eq!(found(&file("${vault:own}")), Ok(("own".to_owned(), file("${vault:own}"))));
        let braces = "profiles: {default: {provider: anthropic}}\n";
        let (_, after) = found(braces).unwrap();
        assert!(after.contains("'${vault:model-default}'"), "{after}");
    }

    #[test]
    fn the_demo_has_no_key() {
        let refused = place(Profile::new("default", Provider::Offline), String::new());

        assert_eq!(refused.map_err(|failure| failure.exit), Err(Exit::Usage));
    }
}
