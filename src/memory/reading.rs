//! Reading memory: for prompts, tools and operators.

use std::{cmp::Ordering, collections::HashMap, sync::Arc};

use hivewright_actors::{
    clock::Timestamp,
    excerpt,
    ids::{MemoryId, TeamKey, TeamName},
    storage::{Storage, StorageError},
};

use super::{
    Memory, Told,
    catalog::is_found,
    entry::{Entry, Key, Kind, Review},
    error::{MemoryError, Result},
    inject::{Injections, choose, lay_out},
    rows,
    search::{Best, Hit, Index, SNIPPET, Sieve, order, sift, snippet},
};

/// What is looked for by words.
#[derive(Clone, Debug)]
pub struct Query {
    pub words: String,
    pub kind: Option<Kind>,
    pub inactive: bool,
    pub most: usize,
}

/// An entry that was found by words.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    pub entry: Entry,
    pub score: f64,
    /// The part that fits, at most 500 characters.
    pub snippet: String,
}

/// Which active entries of a team are listed.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    pub kind: Option<Kind>,
    /// Only this key, or keys that begin so if a `*` stands at the end.
    pub key: Option<String>,
    pub limit: usize,
    pub offset: usize,
}

/// A part of a list.
#[derive(Clone, Debug, PartialEq)]
pub struct Page<T> {
    pub rows: Vec<T>,
    pub total: usize,
}

/// Which versions of all teams an operator wants to see.
#[derive(Clone, Debug, Default)]
pub struct Browse {
    pub team: Option<TeamName>,
    /// Only of these teams; none is all.
    pub teams: Option<Vec<String>>,
    pub key: Option<Key>,
    pub kind: Option<Kind>,
    pub review: Option<Review>,
    pub active: Option<bool>,
    pub words: Option<String>,
    pub sort: Sort,
    /// Only what comes after a version that was changed then; by age only.
    pub after: Option<(Timestamp, MemoryId)>,
    pub limit: usize,
    pub offset: usize,
}

/// In which order an operator sees versions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sort {
    /// The best match first; among equals, and without words, the newest.
    #[default]
    Best,
    /// The other way round.
    Worst,
    /// What was changed last first.
    Newest,
    /// The other way round.
    Oldest,
}

impl Sort {
    fn order(self) -> fn(&Hit, &Hit) -> Ordering {
        match self {
            Self::Best => order,
            Self::Worst => |a, b| order(b, a),
            Self::Newest => |a, b| age(b, a),
            Self::Oldest => age,
        }
    }
}

/// What was changed first comes first.
fn age(a: &Hit, b: &Hit) -> Ordering {
    (a.updated_at, &a.id).cmp(&(b.updated_at, &b.id))
}

impl Browse {
    /// It comes after the place where the list goes on.
    fn is_beyond(&self, entry: &Entry) -> bool {
        let Some((at, id)) = &self.after else { return true };
        let order = (entry.updated_at, &entry.id).cmp(&(*at, id));
        match self.sort {
            Sort::Newest => order.is_lt(),
            Sort::Oldest => order.is_gt(),
            Sort::Best | Sort::Worst => true,
        }
    }

    fn wants(&self, entry: &Entry) -> bool {
        self.key.as_ref().is_none_or(|key| *key == entry.key)
            && self.kind.is_none_or(|kind| kind == entry.kind)
            && self.review.is_none_or(|review| review == entry.review)
            && self.active.is_none_or(|active| active == entry.active)
    }
}

impl Memory {
    /// What a team's next turn is told of what it remembers; empty if there is nothing. Reads nothing
    /// unless something has changed.
    pub async fn injected(&self, team: &TeamKey) -> Result<Arc<str>> {
        let slot = self.slot(team);
        let known = slot.told.lock().clone();
        let redactions = self.store().redactions();
        if let Some(told) = known
            && told.redactions == redactions
            && told.until.is_none_or(|until| self.now() < until)
        {
            return Ok(told.text);
        }
        let catalog = self.catalog(team).await?;
        let choice = choose(catalog.candidates());
        let until = catalog.next_end();
        let team = team.clone();
        let laid_out = self.store().read(move |storage| {
            let mut contents = HashMap::new();
            for chosen in &choice.chosen {
                let one = &chosen.candidate;
                if let Some(entry) = rows::entry(storage, &team, &one.key, one.version)? {
                    contents.insert(entry.id, entry.content);
                }
            }
            Ok(lay_out(&choice, |id| contents.get(id).map(String::as_str)))
        });
        let text: Arc<str> = laid_out.await?.into();
        *slot.told.lock() = Some(Told { text: text.clone(), until, redactions });
        Ok(text)
    }

    /// What the next prompt of a team holds of its entries: the same choice that [`Memory::injected`] lays out.
    pub async fn injections(&self, team: &TeamKey) -> Result<Injections> {
        Ok(Injections::of_choice(&choose(self.catalog(team).await?.candidates())))
    }

    pub async fn count(&self, team: &TeamKey) -> Result<usize> {
        Ok(self.catalog(team).await?.active().count())
    }

    /// Entries of a team with some of the words, best first.
    pub async fn search(&self, team: &TeamKey, query: Query) -> Result<Vec<Found>> {
        if query.inactive {
            return self.search_all(team, query).await;
        }
        let mut catalog = self.catalog(team).await?;
        let store = self.store();
        let index = match catalog.index() {
            Some(index) => index,
            None => {
                let owner = team.clone();
                let read = store.read(move |storage| {
                    let mut index = Index::default();
                    rows::of_team(storage, &owner, &mut |entry| {
                        if is_found(&entry) {
                            index.put(&entry);
                        }
                    })?;
                    Ok(index)
                });
                catalog.set_index(read.await?)
            }
        };
        // Both the sums and the rows take a while: away from the async threads.
        let read = store.read(move |storage| {
            let hits = {
                let index = index.read();
                index.search(&query.words, query.kind, query.most)
            };
            shown(storage, hits, Some(query.words.as_str()))
        });
        Ok(read.await?)
    }

    /// The same over all versions there are.
    async fn search_all(&self, team: &TeamKey, query: Query) -> Result<Vec<Found>> {
        self.settle(team).await?;
        let team = team.clone();
        let read = self.store().read(move |storage| {
            let words = Some(query.words.as_str());
            let of_kind = |entry: &Entry| query.kind.is_none_or(|kind| kind == entry.kind);
            let sieve = Sieve { words, is_typed: false, most: query.most, order };
            let (hits, _) = sift(storage, &team, sieve, |_| true, of_kind, |_| true)?;
            shown(storage, hits, words)
        });
        Ok(read.await?)
    }

    /// What has run out has ended. The team's memory is not held for what is read then, which may take
    /// long.
    async fn settle(&self, team: &TeamKey) -> Result<()> {
        self.catalog(team).await.map(drop)
    }

    /// Active entries of a team, by key.
    pub async fn list(&self, team: &TeamKey, listing: Listing) -> Result<Page<Entry>> {
        let catalog = self.catalog(team).await?;
        let wanted = |key: &Key| match &listing.key {
            None => true,
            Some(pattern) => match pattern.strip_suffix('*') {
                Some(beginning) => key.as_str().starts_with(beginning),
                None => key.as_str() == pattern,
            },
        };
        let matching: Vec<(Key, u32)> = catalog
            .active()
            .filter(|(_, card)| listing.kind.is_none_or(|kind| kind == card.entry.kind))
            .filter(|(key, _)| wanted(key))
            .map(|(key, card)| (key.clone(), card.entry.version))
            .collect();
        let total = matching.len();
        let part: Vec<_> = matching.into_iter().skip(listing.offset).take(listing.limit).collect();
        let team = team.clone();
        let read = self.store().read(move |storage| {
            let mut rows = Vec::new();
            for (key, version) in part {
                rows.extend(rows::entry(storage, &team, &key, version)?);
            }
            Ok(rows)
        });
        Ok(Page { rows: read.await?, total })
    }

    pub async fn get(&self, id: &MemoryId) -> Result<Entry> {
        let mut chain = self.chain(id).await?.into_iter();
        chain.find(|entry| entry.id == *id).ok_or_else(|| MemoryError::Unknown(id.clone()))
    }

    /// All versions of the key that this is a version of, newest first.
    pub async fn chain(&self, id: &MemoryId) -> Result<Vec<Entry>> {
        let rows::Place { team, key } = self.place(id).await?;
        let _catalog = self.catalog(&team).await?;
        let read = self.store().read(move |storage| rows::chain(storage, &team, &key));
        let mut versions = read.await?.0;
        versions.reverse();
        Ok(versions)
    }

    /// Versions of all teams, for an operator. Without words each comes with the score 0.
    pub async fn browse(&self, browse: Browse) -> Result<Page<Found>> {
        let (offset, limit) = (browse.offset, browse.limit);
        let most = offset.saturating_add(limit);
        let mut best = Best::new(most, browse.sort.order());
        let mut total = 0;
        let browse = Arc::new(browse);
        for team in self.store().read(rows::teams).await? {
            let is = |name: &String| team.name.as_str() == name;
            if browse.team.as_ref().is_some_and(|name| *name != team.name)
                || !browse.teams.as_ref().is_none_or(|teams| teams.iter().any(is))
            {
                continue;
            }
            match self.settle(&team).await {
                Ok(()) => {}
                Err(MemoryError::Forgotten) => continue,
                Err(error) => return Err(error),
            }
            let browse = browse.clone();
            let read = self.store().read(move |storage| {
                let among = |entry: &Entry| browse.active != Some(true) || is_found(entry);
                let wanted = |entry: &Entry| browse.wants(entry);
                let beyond = |entry: &Entry| browse.is_beyond(entry);
                let sieve = Sieve {
                    words: browse.words.as_deref(),
                    is_typed: true,
                    most,
                    order: browse.sort.order(),
                };
                sift(storage, &team, sieve, among, wanted, beyond)
            });
            let (hits, wanted) = read.await?;
            total += wanted;
            hits.into_iter().for_each(|hit| best.push(hit));
        }
        let page: Vec<_> = best.sorted().into_iter().skip(offset).collect();
        let read = self.store().read(move |storage| shown(storage, page, browse.words.as_deref()));
        Ok(Page { rows: read.await?, total })
    }
}

/// What was found, with the part of each that fits the words.
fn shown(
    storage: &dyn Storage,
    hits: impl IntoIterator<Item = Hit>,
    words: Option<&str>,
) -> Result<Vec<Found>, StorageError> {
    let mut found = Vec::new();
    for hit in hits {
        // It may have gone meanwhile.
        let Some(entry) = rows::entry(storage, &hit.team, &hit.key, hit.version)? else { continue };
        let snippet = match words {
            Some(words) => snippet(&entry.content, &hit.chunk, words, SNIPPET),
            None => excerpt::line(&entry.content, SNIPPET),
        };
        found.push(Found { entry, score: hit.score, snippet });
    }
    Ok(found)
}
