//! Notices of the service itself, for the operator's inbox.

use hivewright_actors::{
    clock::Clock,
    ids::Ids,
    notice::{Notice, NoticeKind},
    store::{StoreHandle, records::Writes},
};

use crate::system::WallClock;

pub(super) fn notify(
    store: &StoreHandle,
    ids: &Ids,
    kind: NoticeKind,
    text: String,
    writes: Writes,
) {
    let notice = Notice::new(ids.notice(), kind, text, WallClock.now());
    // The store takes it in now; nobody waits until it is safe.
    drop(store.commit(writes.put(&notice)));
}
