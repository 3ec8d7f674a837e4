//! `web_search`: asks the search engine that the operator configured.

use std::time::Duration;

use hivewright_actors::{excerpt, task::Label, tool::Effect};
use reqwest::{
    Method,
    header::{self, HeaderMap, HeaderName, HeaderValue},
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Web, endpoint::Endpoint};
use crate::{
    sandbox::egress::{EgressError, body, request::Request},
    settings::{
        network::host_name,
        search::{Engine, Search},
    },
    tools::{
        about::About,
        answer,
        contract::{Tool, ToolContext, not_blank},
        error::ToolError,
    },
};

const TIMEOUT: Duration = Duration::from_secs(20);
/// The most of an answer that is read, in bytes.
const MOST_BYTES: usize = 1 << 20;
const USUAL_RESULTS: usize = 8;
const MOST_RESULTS: usize = 20;
/// So much of each field is told, in characters.
const LONGEST_FIELD: usize = 500;

/// A search engine, and the way to it.
pub struct WebSearch {
    search: Search,
    endpoint: Endpoint,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct Args {
    #[schemars(length(min = 1, max = 400))]
    query: String,
    /// 8 if not given.
    #[schemars(range(min = 1, max = MOST_RESULTS))]
    max_results: Option<usize>,
}

impl WebSearch {
    /// None if nothing says where the engine is.
    pub fn new(web: Web, search: &Search) -> Option<Self> {
        let path = match search.engine {
            Engine::Searxng => "search",
            Engine::Brave => "res/v1/web/search",
        };
        let address = search.address()?.trim_end_matches('/');
        let endpoint = Endpoint::new(web, &format!("{address}/{path}"))?;
        Some(Self { search: search.clone(), endpoint })
    }

    fn request(&self, args: &Args, count: usize) -> Result<Request, ToolError> {
        let (mut url, mut headers) = (self.endpoint.url.clone(), HeaderMap::new());
        url.query_pairs_mut().append_pair("q", &args.query);
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
        let key_header = match self.search.engine {
            Engine::Searxng => {
                url.query_pairs_mut().append_pair("format", "json");
                header::AUTHORIZATION
            }
            Engine::Brave => {
                url.query_pairs_mut().append_pair("count", &count.to_string());
                HeaderName::from_static("x-subscription-token")
            }
        };
        if let Some(key) = &self.search.api_key {
            let key = match self.search.engine {
                Engine::Searxng => format!("Bearer {}", key.expose()),
                Engine::Brave => key.expose().to_owned(),
            };
            let mut value = HeaderValue::try_from(key)
                .map_err(|_| ToolError::failed("the key of the search engine cannot be sent"))?;
            value.set_sensitive(true);
            headers.insert(key_header, value);
        }
        Ok(Request { method: Method::GET, url, headers, body: None })
    }

    async fn search(&self, args: &Args, cx: &ToolContext) -> Result<String, ToolError> {
        let count = args.max_results.unwrap_or(USUAL_RESULTS).min(MOST_RESULTS);
        let request = self.request(args, count)?;
        let host = host_name(&self.endpoint.url).ok_or(EgressError::InvalidUrl)?;
        let buckets = &cx.grant.file.rate_limit_buckets;
        self.endpoint.web.limiter.take(&cx.grant.team, buckets, None, &host)?;
        cx.believe(Label::Untrusted);
        let mut response = self.endpoint.send(request).await?;
        let status = response.status();
        let body = body::read(&mut response, MOST_BYTES).await?;
        if !status.is_success() {
            let said = excerpt::line(&String::from_utf8_lossy(&body.bytes), LONGEST_FIELD);
            let message = format!("the search engine answered {}: {said}", status.as_u16());
            return Err(ToolError::failed(message));
        }
        let found = serde_json::from_slice::<Value>(&body.bytes).ok().filter(|_| !body.truncated);
        let found = found.as_ref().and_then(|found| results(self.search.engine, found, count));
        let found = found.ok_or_else(|| {
            ToolError::failed("the search engine did not answer with results in JSON")
        })?;
        Ok(answer::ok(json!({ "results": found })))
    }
}

impl Tool for WebSearch {
    const ABOUT: About =
        About::new("web_search", "@web", "net.read", Effect::Pure).within(TIMEOUT, TIMEOUT);
    const DESCRIPTION: &'static str = "Searches the web: title, address and a few words of each result, as data. \
        `web_fetch` reads a page.";
    type Args = Args;

    fn accept(args: &Args) -> Result<(), String> {
        not_blank("query", &args.query)
    }

    async fn call(&self, args: Args, cx: &ToolContext) -> Result<String, ToolError> {
        tokio::select! {
            biased;
            () = cx.cancel.cancelled() => Err(ToolError::stopped("")),
            found = self.search(&args, cx) => found,
        }
    }
}

/// The results in an answer; none if that has another form.
fn results(engine: Engine, found: &Value, count: usize) -> Option<Vec<Value>> {
    let (list, words) = match engine {
        Engine::Searxng => (found.get("results")?.as_array()?, "content"),
        // Without a result there is no such part.
        Engine::Brave => match found.get("web") {
            Some(web) => (web.get("results")?.as_array()?, "description"),
            None => return found.is_object().then(Vec::new),
        },
    };
    let field = |result: &Value, name: &str| {
        let words = result[name].as_str().unwrap_or_default().split_whitespace();
        excerpt::line(&words.collect::<Vec<_>>().join(" "), LONGEST_FIELD)
    };
    let results = list.iter().take(count).map(|result| {
        json!({
            "title": field(result, "title"),
            "url": field(result, "url"),
            "snippet": field(result, words),
        })
    });
    Some(results.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_read_as_each_engine_writes_them() {
        let one = json!([{ "title": "A", "url": "https://a.example/", "snippet": "words of a" }]);
        let searxng = json!({ "results": [
            { "title": "A", "url": "https://a.example/", "content": "words\n of a", "engine": "x" },
            { "title": "B", "url": "https://b.example/" },
        ]});
        let brave = json!({ "web": { "results": [
            { "title": "A", "url": "https://a.example/", "description": "words of a" },
        ]}});

        assert_eq!(results(Engine::Searxng, &searxng, 1).map(Value::from), Some(one.clone()));
        assert_eq!(results(Engine::Brave, &brave, 8).map(Value::from), Some(one));
        assert_eq!(results(Engine::Brave, &json!({ "type": "search" }), 8), Some(Vec::new()));
        assert_eq!(results(Engine::Searxng, &json!({ "error": "no" }), 8), None);
    }

    /// Where the engine is, and with which key, only the operator says.
    #[test]
    fn an_engine_without_an_address_is_no_tool() {
        let searxng = Search::default();
        let brave = Search { engine: Engine::Brave, ..Search::default() };

        assert!(WebSearch::new(Web::default(), &searxng).is_none());
        let found = WebSearch::new(Web::default(), &brave).unwrap();
        assert_eq!(found.endpoint.url.as_str(), "https://api.search.brave.com/res/v1/web/search");
    }
}
