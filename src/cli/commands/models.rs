//! `hivewright models`: the models of each configured profile.

use clap::Args;

use crate::{
    api::{
        endpoint::Empty,
        models::{LIST_MODELS, ModelRow},
    },
    cli::{client::Service, context::Context, failure::Failure},
};

/// List the models that the API of each profile has
///
/// Each API is asked, with its key. The model behind a profile's name is the one that it uses.
#[derive(Debug, PartialEq, Args)]
#[command(after_help = "Examples:\n  \
    hivewright models\n  \
    hivewright models --json | jq -r '.data[].models[]'")]
pub(super) struct Arguments {}

pub(super) async fn run(_: Arguments, context: &Context) -> Result<(), Failure> {
    let rows = Service::find(context)?.all(&LIST_MODELS, &Empty {}).await?;
    rows.show(context.screen, |rows| rows.iter().map(described).collect())
}

fn described(ModelRow { profile, provider, model, models, unlisted }: &ModelRow) -> String {
    let head = format!("{profile}: {model} of {provider}\n");
    let listed = models.iter().map(|name| format!("  {name}\n"));
    let unlisted = unlisted.iter().map(|why| format!("  its models are not known: {why}\n"));
    head + &listed.chain(unlisted).collect::<String>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::providers::Provider;

    /// OP-82
    #[test]
    fn a_profile_stands_above_the_models_of_its_api() {
        let row = |models: &[&str], unlisted: Option<&str>| ModelRow {
            profile: "default".to_owned(),
            provider: Provider::OpenAi,
            model: "b".to_owned(),
            models: models.iter().map(ToString::to_string).collect(),
            unlisted: unlisted.map(str::to_owned),
        };

        assert_eq!(described(&row(&["a", "b"], None)), "default: b of openai\n  a\n  b\n");
        assert_eq!(
            described(&row(&[], Some("the API answered with status 401"))),
            "default: b of openai\n  its models are not known: the API answered with status 401\n"
        );
    }
}
