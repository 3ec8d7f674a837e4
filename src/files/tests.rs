//! Files over a real store: what is kept, for whom, and for how long.

use std::{sync::Arc, time::SystemTime};

use hivewright_actors::{
    doubles::entropy::Sequence, ids::MAIN, store::records::Writes, task::Label,
};
use tempfile::TempDir;

use super::*;
use crate::{
    memory::doubles::Bench,
    settings::{
        home::{Flags, Home},
        references::Environment,
    },
};

struct Place {
    folder: TempDir,
    bench: Bench,
    files: FileStore,
}

fn place() -> Place {
    let folder = tempfile::tempdir().unwrap();
    let bench = Bench::new();
    let files = open(&folder, &bench);
    Place { folder, bench, files }
}

fn open(folder: &TempDir, bench: &Bench) -> FileStore {
    let environment = Environment::fixed([]);
    let flags = Flags { home: Some(folder.path().to_owned()), ..Flags::default() };
    let home = Home::new(&flags, &environment).unwrap();
    home.prepare().unwrap();
    let ids = Ids::new(Arc::new(Sequence::from(1)));
    let (store, clock) = (bench.store.clone(), bench.clock.clone());
    FileStore::open(home.files(), &*bench.disk, store, clock, ids, Live::new(home, environment))
        .unwrap()
}

impl Place {
    async fn bring(&self, owner: &str, content: &[u8]) -> FileRow {
        let row = FileRow { owner: Some(owner.into()), ..self.files.blank("a.txt") };
        let mut incoming = self.files.begin(owner, None).await.unwrap();
        incoming.write(content).await.unwrap();
        self.files.keep(incoming, row).await.unwrap()
    }

    async fn name(&self, row: &FileRow) {
        let (channel, team) = ("ws:1".into(), MAIN.into());
        let row = row.clone().named(&channel, &team, Label::Trusted, self.files.now());
        self.bench.store.commit(Writes::new().put(&row)).await.unwrap();
    }

    /// Contents that are there.
    fn contents(&self) -> usize {
        let entries = fs::read_dir(&self.files.0.folder).unwrap();
        entries.filter(|entry| entry.as_ref().unwrap().path().is_file()).count()
    }

    /// All contents look as if they had been put there long ago.
    fn age(&self) {
        for entry in fs::read_dir(&self.files.0.folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_file() {
                let file = fs::File::options().write(true).open(path).unwrap();
                file.set_modified(SystemTime::now() - SETTLING * 2).unwrap();
            }
        }
    }
}

fn owner(grant: &str) -> Owner {
    Owner { principal: grant.into(), grant: grant.into(), since: Timestamp(0) }
}

/// What no message names goes after a day; what one names stays as long as what was said.
#[actix::test]
async fn what_no_message_names_is_removed() {
    let place = place();
    let (named, unnamed) = (place.bring("ann", b"one").await, place.bring("ann", b"two").await);
    place.name(&named).await;
    place.age();

    place.bench.clock.advance(UNNAMED_KEPT * 2);
    let removed = place.files.tidy().await.unwrap();

    assert_eq!((removed, place.contents()), (1, 1));
    assert!(place.files.of(&owner("ann"), &named.file.id).await.unwrap().is_some());
    assert!(place.files.of(&owner("ann"), &unnamed.file.id).await.unwrap().is_none());
    place.bench.clock.advance(Terms::default().tasks * 2);
    assert_eq!((place.files.tidy().await.unwrap(), place.contents()), (1, 0));
    assert_eq!(place.files.used().values().sum::<u64>(), 0);
}

/// The same content of two people is kept once, and stays until nobody has it.
#[actix::test]
async fn one_content_serves_all_who_brought_it() {
    let place = place();
    let (ann, bob) = (place.bring("ann", b"same").await, place.bring("bob", b"same").await);
    place.name(&bob).await;
    place.age();

    place.bench.clock.advance(UNNAMED_KEPT * 2);
    place.files.tidy().await.unwrap();

    assert_eq!((ann.file.digest == bob.file.digest, place.contents()), (true, 1));
    assert_eq!(place.files.read(&bob.file).unwrap(), b"same");
}

/// A content that was put there a moment ago may belong to a file that is being written down.
#[actix::test]
async fn a_young_content_is_left_alone() {
    let place = place();
    place.bring("ann", b"one").await;

    place.bench.clock.advance(UNNAMED_KEPT * 2);
    place.files.tidy().await.unwrap();

    assert_eq!(place.contents(), 1);
}

/// Each person has room of their own, and gets it back from what is not kept.
#[actix::test]
async fn one_person_cannot_take_the_room_of_another() {
    let place = place();
    let most = Limits::default().files.0;
    place.files.reserve("ann", most - 3, most).unwrap();

    let mut dropped = place.files.begin("ann", None).await.unwrap();
    let over = dropped.write(b"four").await;
    let fits = dropped.write(b"3ch").await;
    let full = place.files.begin("ann", Some(1)).await;
    drop(dropped);

    assert!(matches!(over, Err(FileError::Quota(_))), "{over:?}");
    fits.unwrap();
    assert!(matches!(full, Err(FileError::Quota(_))));
    place.bring("ann", b"ok").await;
    place.bring("bob", b"much more than that").await;
}

/// What a process was taking in when it was killed is gone, and what it had kept counts.
#[actix::test]
async fn a_start_finds_what_was_kept_and_nothing_else() {
    let place = place();
    place.bring("ann", b"kept").await;
    let mut begun = place.files.begin("ann", None).await.unwrap();
    begun.write(b"never finished").await.unwrap();
    std::mem::forget(begun);

    let again = open(&place.folder, &place.bench);

    assert_eq!(again.used().get("ann"), Some(&4));
    let left = fs::read_dir(incoming_folder(&again.0.folder)).unwrap();
    assert_eq!(left.count(), 0);
}

/// A file is named by who brought it, or by whoever's channel it was said in; by nobody else.
#[actix::test]
async fn a_file_is_named_by_its_own_people() {
    let place = place();
    let row = place.bring("ann", b"one").await;
    let id = [row.file.id.to_string()];

    let own = place.files.named(&owner("ann"), &id).await.unwrap();
    let others = place.files.named(&owner("bob"), &id).await;
    let many: Vec<String> = (0..=MOST_FILES).map(|number| number.to_string()).collect();
    let too_many = place.files.named(&owner("ann"), &many).await;
    place.bench.clock.advance(UNNAMED_KEPT);
    let late = place.files.named(&owner("ann"), &id).await;

    assert_eq!(own, std::slice::from_ref(&row));
    assert!(matches!(others, Err(FileError::Unknown(_))), "{others:?}");
    assert!(matches!(too_many, Err(FileError::TooMany)), "{too_many:?}");
    assert!(matches!(late, Err(FileError::Unknown(_))), "{late:?}");
    let channel = ChannelRow::new(
        owner("bob"),
        place.files.now(),
        hivewright_actors::channel_type::ChannelType::Ws,
    );
    let writes = Writes::new().put_at(&"ws:1".into(), &channel);
    place.bench.store.commit(writes).await.unwrap();
    place.name(&row).await;
    assert!(place.files.of(&owner("bob"), &row.file.id).await.unwrap().is_some());
    assert!(place.files.of(&owner("eve"), &row.file.id).await.unwrap().is_none());
}
