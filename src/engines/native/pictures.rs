//! Pictures for models that see: which of a conversation are shown, and their bytes.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use hivewright_actors::{
    blocking,
    engine::{Message, StepRequest},
    file::FileRef,
};

use crate::{files::FileStore, providers::Pictures};

/// A picture above this is told by its line: the APIs take 5 MB of base64.
const LARGEST: u64 = 3_750_000;
/// A request shows no more bytes of pictures, and no more pictures: the newest.
const MOST_BYTES: u64 = 12_000_000;
const MOST: usize = 20;

/// What is left for pictures of a request.
struct Room {
    bytes: u64,
    count: usize,
}

impl Room {
    fn takes(&mut self, file: &FileRef) -> bool {
        let fits = file.size <= LARGEST && file.size <= self.bytes && self.count > 0;
        if fits {
            self.bytes -= file.size;
            self.count -= 1;
        }
        fits
    }
}

fn pictures(messages: &[Message]) -> impl Iterator<Item = &FileRef> {
    let files = messages.iter().flat_map(|message| match message {
        Message::Files(files) => files.as_slice(),
        _ => &[],
    });
    files.filter(|file| file.is_picture() && file.size <= LARGEST)
}

/// The pictures that a request shows: those of its turn, then of earlier turns, the newest first, as long as there is room
/// for all of a turn.
fn chosen(request: &StepRequest) -> (Vec<FileRef>, usize) {
    let mut room = Room { bytes: MOST_BYTES, count: MOST };
    let own = pictures(&request.messages).filter(|file| room.takes(file));
    let mut chosen: Vec<FileRef> = own.cloned().collect();
    let mut from = request.earlier.len();
    for turn in request.earlier.iter().rev() {
        if !pictures(turn).all(|file| room.takes(file)) {
            break;
        }
        chosen.extend(pictures(turn).cloned());
        from -= 1;
    }
    (chosen, from)
}

/// Reads the pictures that a request shows. One that is gone is told by its line.
pub(super) async fn load(files: &FileStore, request: &StepRequest) -> Pictures {
    let (chosen, from) = chosen(request);
    if chosen.is_empty() {
        return Pictures::default();
    }
    let files = files.clone();
    let read = blocking::run(move || {
        let read = chosen.into_iter().filter_map(|file| match files.read(&file) {
            Ok(bytes) => Some((file.digest, STANDARD.encode(bytes))),
            Err(error) => {
                tracing::warn!(file = %file.id, %error, "a picture is not shown");
                None
            }
        });
        read.collect()
    });
    Pictures { encoded: read.await.unwrap_or_default(), from }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use hivewright_actors::engine::FixedMessages;
    use tokio_util::sync::CancellationToken;

    use super::*;

    fn picture(name: &str, size: u64) -> FileRef {
        FileRef {
            id: name.into(),
            name: name.to_owned(),
            mime: "image/png".to_owned(),
            size,
            digest: name.to_owned(),
            path: None,
        }
    }

    fn shown(earlier: &[&[(&str, u64)]], own: &[(&str, u64)]) -> (Vec<String>, usize) {
        let files = |some: &[(&str, u64)]| {
            Message::Files(some.iter().map(|(name, size)| picture(name, *size)).collect())
        };
        let turn = |some: &&[(&str, u64)]| Arc::new(FixedMessages::new(vec![files(some)]));
        let request = StepRequest {
            team: "main".into(),
            turn: "turn".into(),
            step: 1,
            system: Arc::default(),
            tools: Arc::default(),
            earlier: earlier.iter().map(turn).collect(),
            messages: Arc::new(vec![Message::User("look".into()), files(own)]),
            thinking: None,
            cancel: CancellationToken::new(),
        };
        let (chosen, from) = chosen(&request);
        (chosen.into_iter().map(|file| file.digest).collect(), from)
    }

    #[test]
    fn the_newest_pictures_are_shown_as_far_as_they_fit() {
        let (few, all) = shown(&[&[("a", 10)], &[], &[("b", 10)]], &[("c", 10)]);
        let big = 3_500_000;
        let (many, from) = shown(
            &[&[("a", big)], &[("b", big)], &[("c", big)]],
            &[("d", big), ("e", LARGEST + 1)],
        );

        assert_eq!((few, all), (["c", "b", "a"].map(str::to_owned).to_vec(), 0));
        assert_eq!((many, from), (["d", "c", "b"].map(str::to_owned).to_vec(), 1));
    }

    #[test]
    fn other_files_are_no_pictures() {
        let text = FileRef { mime: "text/plain".to_owned(), ..picture("t", 1) };

        assert_eq!(pictures(&[Message::Files(vec![text])]).count(), 0);
    }
}
