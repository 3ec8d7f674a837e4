//! Changing memory: one act at a time for each team, answered when it is durable.

use std::sync::{Arc, atomic::Ordering};

use futures_util::future::{BoxFuture, FutureExt};
use hivewright_actors::{
    ids::{MemoryId, TaskId, TeamKey},
    journal,
    org::belongings::{Belongings, deletion_of},
    storage::StorageError,
    store::records::Writes,
    task::{Label, records::LaneKey},
    tool::Caller,
};

use super::{
    Memory, Slot,
    catalog::MemoryCatalog,
    chain::{Act, Chain, Change, Draft, Edit, Saved, Verdict, check_content, check_reason},
    entry::{Actor, Entry, Key, Kind},
    error::{MOST_ENTRIES, MemoryError, Result},
    provenance::Provenance,
    rate::Rate,
    rows,
};

impl Memory {
    /// Where something comes from that a turn saves by a call, filled from its journal.
    pub async fn provenance(
        &self,
        caller: &Caller,
        call: &str,
        label: Label,
    ) -> Result<Provenance> {
        let lane = LaneKey::new(&caller.lane, caller.team.generation);
        let key = call.to_owned();
        let read = self.store().read(move |storage| journal::trail(storage, &lane, &key));
        let provenance = Provenance::in_turn(caller, call, label);
        Ok(match read.await? {
            Some(trail) => provenance.after(trail),
            None => provenance,
        })
    }

    /// Saves for a team, within its limits. The same call again has the same result.
    pub async fn save(&self, draft: Draft) -> Result<Saved> {
        draft.check()?;
        self.refuse_secret(&draft.team, &draft.content)?;
        let slot = self.slot(&draft.team);
        let under_way = UnderWay::new(slot, draft.key.clone());
        let counted = matches!(draft.by, Actor::Team(_));
        let (team, key, by) = (draft.team.clone(), draft.key.clone(), draft.by.clone());
        let lessons_of = draft.provenance.task_id.clone().filter(|_| draft.looks_back);
        self.act(team, key, by, lessons_of, move |chain, act, rate| {
            let now = act.now;
            let (saved, change) = chain.save(draft, act, under_way.raced)?;
            if counted && change.is_some() {
                rate.check(now).map_err(MemoryError::Rate)?;
                rate.count(now);
            }
            Ok((saved, change))
        })
        .await
    }

    /// Ends what is active under a key of a team. False if nothing was.
    pub async fn delete(
        &self,
        team: &TeamKey,
        key: &Key,
        reason: Option<String>,
        by: Actor,
        call: Option<String>,
    ) -> Result<bool> {
        check_reason("reason", reason.as_deref())?;
        self.act(team.clone(), key.clone(), by, None, move |chain, act, _| {
            Ok(chain.delete(&act, reason, call.as_deref()))
        })
        .await
    }

    pub async fn deactivate(
        &self,
        id: &MemoryId,
        note: Option<String>,
        by: Actor,
    ) -> Result<Entry> {
        check_reason("note", note.as_deref())?;
        self.act_on(id, by, move |chain, act, id| chain.deactivate(id, act, note.as_deref())).await
    }

    /// Changes the active version: a new one, unless only its end is another.
    pub async fn edit(&self, id: &MemoryId, edit: Edit, by: Actor) -> Result<Entry> {
        edit.check()?;
        let place = self.place(id).await?;
        if let Some(content) = &edit.content {
            self.refuse_secret(&place.team, content)?;
        }
        self.act_on(id, by, move |chain, act, id| chain.edit(id, edit, act)).await
    }

    /// Makes a new version with the content of an old one.
    pub async fn rollback(&self, id: &MemoryId, by: Actor) -> Result<Entry> {
        let old = self.get(id).await?;
        self.refuse_secret(&old.team, &old.content)?;
        self.act_on(id, by, move |chain, act, id| chain.rollback(id, act)).await
    }

    pub async fn review(
        &self,
        id: &MemoryId,
        verdict: Verdict,
        note: Option<String>,
        by: Actor,
    ) -> Result<Entry> {
        check_reason("note", note.as_deref())?;
        self.act_on(id, by, move |chain, act, id| chain.review(id, verdict, note, act)).await
    }

    pub async fn correct(
        &self,
        id: &MemoryId,
        content: String,
        note: Option<String>,
        by: Actor,
    ) -> Result<Entry> {
        check_content(&content)?;
        check_reason("note", note.as_deref())?;
        self.refuse_secret(&self.place(id).await?.team, &content)?;
        self.act_on(id, by, move |chain, act, id| chain.correct(id, content, note, act)).await
    }

    /// Puts the active version before others in prompts, or no longer.
    pub async fn pin(&self, id: &MemoryId, pinned: bool, by: Actor) -> Result<Entry> {
        self.act_on(id, by, move |chain, act, id| chain.pin(id, pinned, act)).await
    }

    /// Forgets a team that is shut down: the keys of all its rows, for the commit that removes them.
    /// Nothing is saved for it any more.
    pub async fn forget_team(&self, team: &TeamKey) -> Result<Vec<Vec<u8>>> {
        let slot = self.slot(team);
        slot.forgotten.store(true, Ordering::SeqCst);
        let mut shelf = slot.shelf.lock().await;
        shelf.catalog = None;
        *slot.told.lock() = None;
        let team = team.clone();
        Ok(self.store().read(move |storage| rows::keys(storage, &team)).await?)
    }

    fn refuse_secret(&self, team: &TeamKey, content: &str) -> Result<()> {
        match self.0.guard.holds_secret(team, content) {
            Some(key) => Err(MemoryError::Secret(key)),
            None if self.0.guard.holds_hidden(team, content) => Err(MemoryError::HiddenSecret),
            None => Ok(()),
        }
    }

    pub(super) async fn place(&self, id: &MemoryId) -> Result<rows::Place> {
        let wanted = id.clone();
        let read = self.store().read(move |storage| rows::place(storage, &wanted));
        read.await?.ok_or_else(|| MemoryError::Unknown(id.clone()))
    }

    /// Does something to the versions of a key that one of them was named by.
    async fn act_on(
        &self,
        id: &MemoryId,
        by: Actor,
        decide: impl FnOnce(&Chain, &Act, &MemoryId) -> Result<Change> + Send + 'static,
    ) -> Result<Entry> {
        let rows::Place { team, key } = self.place(id).await?;
        let id = id.clone();
        self.act(team, key, by, None, move |chain, act, _| {
            let change = decide(chain, &act, &id)?;
            Ok((change.entry.clone(), Some(change)))
        })
        .await
    }

    /// Decides over the versions of a key, commits, then answers.
    ///
    /// On a task of its own: whoever asked may go away in the middle, and the derived data must not
    /// fall behind the rows.
    async fn act<T: Send + 'static>(
        &self,
        team: TeamKey,
        key: Key,
        by: Actor,
        lessons_of: Option<TaskId>,
        decide: impl FnOnce(&Chain, Act, &mut Rate) -> Result<(T, Option<Change>)> + Send + 'static,
    ) -> Result<T> {
        let this = self.clone();
        let acting = hivewright_actors::spawn::anywhere(async move {
            let slot = this.slot(&team);
            let shelf = &mut *slot.shelf.lock().await;
            let catalog = this.filled(&team, &slot, shelf).await?;
            let room = catalog.active().count() < MOST_ENTRIES;
            let chain = this.chain_of(&team, &key, catalog).await?;
            let lessons = match lessons_of {
                Some(task) => this.lessons(&team, task).await?,
                None => 0,
            };
            let act = Act { now: this.now(), by, id: this.0.ids.memory(), room, lessons };
            let (answer, change) = decide(&chain, act, &mut shelf.rate)?;
            if let (Some(change), Some(catalog)) = (change, &mut shelf.catalog) {
                this.commit(&slot, catalog, &change).await?;
            }
            Ok(answer)
        });
        acting.await.unwrap_or_else(|error| Err(StorageError::Read(error.to_string()).into()))
    }

    /// How many lessons were saved in a task. Only cycles ask, so their few rows are counted each time.
    async fn lessons(&self, team: &TeamKey, task: TaskId) -> Result<usize> {
        let team = team.clone();
        let read = self.store().read(move |storage| {
            let mut lessons = 0;
            rows::of_team(storage, &team, &mut |entry| {
                let of_task = entry.provenance.task_id.as_ref() == Some(&task);
                lessons += usize::from(of_task && entry.kind == Kind::Lesson);
            })?;
            Ok(lessons)
        });
        Ok(read.await?)
    }

    async fn chain_of(&self, team: &TeamKey, key: &Key, catalog: &MemoryCatalog) -> Result<Chain> {
        if !catalog.knows(key) {
            return Ok(Chain::default());
        }
        let (team, key) = (team.clone(), key.clone());
        Ok(self.store().read(move |storage| rows::chain(storage, &team, &key)).await?)
    }

    async fn commit(
        &self,
        slot: &Slot,
        catalog: &mut MemoryCatalog,
        change: &Change,
    ) -> Result<()> {
        self.store().commit(rows::writes(change)).await?;
        catalog.apply(change);
        *slot.told.lock() = None;
        for entry in &change.put {
            tracing::debug!(team = %entry.team.name, memory = %entry.id, key = %entry.key, active = entry.active,
                review = entry.review.as_str(), by = %entry.updated_by, "memory changed");
        }
        Ok(())
    }

    pub(super) async fn expire(
        &self,
        team: &TeamKey,
        slot: &Slot,
        catalog: &mut MemoryCatalog,
    ) -> Result<()> {
        let now = self.now();
        for key in catalog.over(now) {
            let chain = self.chain_of(team, &key, catalog).await?;
            let act =
                Act { now, by: Actor::System, id: self.0.ids.memory(), room: true, lessons: 0 };
            match chain.expire(&act) {
                Some(change) => self.commit(slot, catalog, &change).await?,
                // It was ended before, by a reader who left before the catalog heard of it.
                None => chain.0.iter().for_each(|entry| catalog.put(entry)),
            }
        }
        Ok(())
    }
}

/// A save that was asked for. While one is under way, another under the same key is too late: it
/// was written without knowing what the first one says.
struct UnderWay {
    slot: Arc<Slot>,
    key: Key,
    raced: bool,
}

impl UnderWay {
    fn new(slot: Arc<Slot>, key: Key) -> Self {
        let raced = {
            let mut all = slot.under_way.lock();
            let others = all.entry(key.clone()).or_default();
            *others += 1;
            *others > 1
        };
        Self { slot, key, raced }
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut all = self.slot.under_way.lock();
        if let Some(others) = all.get_mut(&self.key) {
            *others -= 1;
            if *others == 0 {
                all.remove(&self.key);
            }
        }
    }
}

/// What a team remembers goes with the team.
impl Belongings for Memory {
    fn forget(&self, team: &TeamKey) -> BoxFuture<'static, Vec<Writes>> {
        let (memory, of) = (self.clone(), team.clone());
        let keys = async move { memory.forget_team(&of).await };
        deletion_of(team, keys, "the memory of a team that is gone stays in the store")
    }

    fn has_any(&self, team: &TeamKey) -> BoxFuture<'static, bool> {
        let (memory, team) = (self.clone(), team.clone());
        async move { memory.count(&team).await.is_ok_and(|count| count > 0) }.boxed()
    }
}
