//! The search engine that `web_search` asks, a section of `config/providers.yaml`.

use hivewright_actors::words;

use super::{
    declare::settings,
    reader::{Group, Section},
    secret::Secret,
    setting::{choices, read_api_url},
};

words! {
    /// A kind of search engine.
    #[derive(Default)]
    pub enum Engine {
        /// SearXNG, with `json` among its `search.formats`.
        #[default]
        Searxng = "searxng",
        /// The API of Brave.
        Brave = "brave",
    }
}

choices!(Engine);

settings! {
    /// A search engine.
    pub struct Search {
        /// Whose API it has.
        engine: Engine = Engine::Searxng,
        /// Where it is. Brave has an address of its own.
        #[read(read_api_url)]
        #[example("http://localhost:8888")]
        api_url: Option<String> = None,
        /// What authenticates us, as for a profile. SearXNG needs none.
        #[example("${env:BRAVE_API_KEY}")]
        api_key: Option<Secret> = None,
    }
}

impl Search {
    /// Where it is, if that is known.
    pub fn address(&self) -> Option<&str> {
        let own = match self.engine {
            Engine::Searxng => None,
            Engine::Brave => Some("https://api.search.brave.com"),
        };
        self.api_url.as_deref().or(own)
    }
}

/// Reads the section, and reports what it lacks.
pub(super) fn read(section: &mut Section<'_>) -> Search {
    let search = Search::read(section);
    match search.engine {
        Engine::Searxng if section.field("api_url").is_none() => {
            section.reject("needs an `api_url`: where your SearXNG is");
        }
        Engine::Brave if section.field("api_key").is_none() => {
            section.reject("needs an `api_key`: the token of your subscription");
        }
        Engine::Searxng | Engine::Brave => {}
    }
    search
}
