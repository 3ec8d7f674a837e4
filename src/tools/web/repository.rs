//! `search_skill_repository`: asks the repository of skills that the operator configured.

use std::time::Duration;

use hivewright_actors::{excerpt, task::Label, tool::Effect};
use reqwest::{
    Method,
    header::{self, HeaderMap, HeaderValue},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Web, endpoint::Endpoint};
use crate::{
    sandbox::egress::{body, request::Request},
    tools::{
        about::About,
        answer,
        contract::{Tool, ToolContext, not_blank},
        error::ToolError,
    },
};

const TIMEOUT: Duration = Duration::from_secs(10);
/// The most of an answer that is read, in bytes.
const MOST_BYTES: usize = 512 << 10;
const MOST_RESULTS: usize = 20;
/// So much of each field is told, in characters.
const LONGEST_FIELD: usize = 500;
const USUAL_SCORE: f64 = 0.6;

/// A repository of skills, and the way to it.
pub struct SearchSkillRepository(Endpoint);

#[derive(Debug, Deserialize, Serialize, JsonSchema)]
pub struct Args {
    /// What the skill should do.
    #[schemars(length(min = 1, max = 400))]
    query: String,
    #[schemars(length(max = 100))]
    #[serde(skip_serializing_if = "Option::is_none")]
    category: Option<String>,
    /// How well it has to fit, 0 to 1; 0.6 if not given.
    #[schemars(range(min = 0, max = 1))]
    min_score: Option<f64>,
}

/// A skill that the repository has.
#[derive(Debug, Deserialize, Serialize)]
struct Found {
    name: String,
    #[serde(default)]
    description: String,
    #[serde(default)]
    match_score: f64,
    #[serde(default)]
    install_count: u64,
    /// A number for some repositories, a word for others.
    #[serde(default)]
    source_reputation: Value,
    /// Where it is to be read, for those that tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    source: Option<String>,
}

impl SearchSkillRepository {
    /// None if that is no address.
    pub fn new(web: Web, address: &str) -> Option<Self> {
        Endpoint::new(web, address).map(Self)
    }

    /// What fits, or why nobody knows.
    async fn search(&self, mut args: Args) -> Result<Vec<Found>, String> {
        let least = *args.min_score.get_or_insert(USUAL_SCORE);
        let body = serde_json::to_string(&args).map_err(|error| error.to_string())?;
        let json = HeaderValue::from_static("application/json");
        let headers = [(header::ACCEPT, json.clone()), (header::CONTENT_TYPE, json)];
        let request = Request {
            method: Method::POST,
            url: self.0.url.clone(),
            headers: HeaderMap::from_iter(headers),
            body: Some(body.into()),
        };
        let sent = self.0.send(request).await;
        let mut response = sent.map_err(|error| error.to_string())?;
        if !response.status().is_success() {
            return Err(format!("the repository answered {}", response.status().as_u16()));
        }
        let body = body::read(&mut response, MOST_BYTES).await;
        let body = body.map_err(|error| error.to_string())?;
        if body.truncated {
            return Err(format!("the repository answered with more than {MOST_BYTES} bytes"));
        }
        #[derive(Deserialize)]
        struct Answer {
            results: Vec<Found>,
        }
        let Answer { mut results } = serde_json::from_slice(&body.bytes)
            .map_err(|error| format!("the repository's answer cannot be read: {error}"))?;
        results.retain(|found| found.match_score >= least);
        results.truncate(MOST_RESULTS);
        for found in &mut results {
            let texts = [&mut found.name, &mut found.description].into_iter();
            for text in texts.chain(&mut found.source) {
                *text = excerpt::line(text, LONGEST_FIELD);
            }
            if !found.source_reputation.is_number() {
                let word = found.source_reputation.as_str().unwrap_or_default();
                found.source_reputation = excerpt::line(word, LONGEST_FIELD).into();
            }
        }
        Ok(results)
    }
}

impl Tool for SearchSkillRepository {
    const ABOUT: About = About::new("search_skill_repository", "@skills", "net.read", Effect::Pure)
        .within(TIMEOUT, TIMEOUT);
    const DESCRIPTION: &'static str = "Searches a public repository for skills (procedures) that others wrote, as data. \
        Nothing is installed. With `fallback: true` it could not be asked: go on without it.";
    type Args = Args;

    fn accept(args: &Args) -> Result<(), String> {
        not_blank("query", &args.query)
    }

    async fn call(&self, args: Args, cx: &ToolContext) -> Result<String, ToolError> {
        cx.believe(Label::Untrusted);
        let found = tokio::select! {
            biased;
            () = cx.cancel.cancelled() => return Err(ToolError::stopped("")),
            found = tokio::time::timeout(TIMEOUT - Duration::from_secs(1), self.search(args)) => found,
        };
        // A team can do its work without it, so that this is no error.
        let fallback =
            |reason: String| json!({ "results": [], "fallback": true, "reason": reason });
        Ok(answer::ok(match found {
            Ok(Ok(results)) => json!({ "results": results, "fallback": false }),
            Ok(Err(reason)) => fallback(excerpt::line(&reason, LONGEST_FIELD)),
            Err(_) => fallback("the repository did not answer in time".to_owned()),
        }))
    }
}
