//! Transcript files: each session as lines in a file of its own, which goes on with each turn and outlives the store.
//!
//! Behind each turn a line names it, so that a file itself says where it goes on. What stands behind the last of these
//! lines was cut off by a crash, and is written again.

use std::{
    collections::HashSet,
    fs::{self, File, OpenOptions},
    io::{self, BufRead, BufReader, BufWriter, Read, Seek, SeekFrom, Write},
    ops::ControlFlow,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

use hivewright_actors::{
    clock::Timestamp,
    history::{Fact, HistoryEvent},
    ids::TurnId,
    journal::{records::Piece, sessions},
    storage::{Order, Storage, StorageError},
    store::{
        reads::{Range, parse},
        records::decode,
    },
    task::{Lane, records::LaneKey},
};

use super::lines::{self, FactLine, Line, MessageLine, Writer};
use crate::{logging::Secrets, removal::if_there};

/// The last turn of a file is looked for in so many bytes first, then in ever more.
const TAIL: u64 = 4 * 1024;
/// A clock may have been set back by this much.
pub(super) const CLOCK_SLACK: Duration = Duration::from_secs(60 * 60);
/// Is there while no file lacks anything: a mark that can be taken away on a full disk, too.
const COMPLETE: &str = ".complete";
/// What lines begin with that are no messages.
const META: &[u8] = b"{\"type\":\"meta\"";
/// What a file is called while it takes the place of another.
const NEW: &str = ".new";

/// Why a file is not up to date.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TranscriptError {
    #[error("the file cannot be written: {0}")]
    File(#[from] io::Error),
    #[error(transparent)]
    Storage(#[from] StorageError),
}

/// The folder of transcripts. Its calls block, and each session is written by one caller at a time.
#[derive(Clone, Debug)]
pub struct Folder {
    path: PathBuf,
    secrets: Secrets,
}

/// Where a file ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// The end of its last turn in the journal.
    seq: u64,
    length: u64,
}

/// A piece of a journal as it moves to the archive: its stored key, and its value.
pub type Seen<'a> = (&'a [u8], &'a [u8]);

/// The turn that a file ends with.
#[derive(Debug, PartialEq, Eq)]
struct LastTurn {
    id: TurnId,
    at: Timestamp,
}

impl Folder {
    /// What is known as a secret does not get into its files.
    pub fn new(path: PathBuf, secrets: Secrets) -> Self {
        Self { path, secrets }
    }

    /// Whether all files have all that there is.
    pub fn is_complete(&self) -> bool {
        self.path.join(COMPLETE).exists()
    }

    /// From now on the next start looks what the files lack.
    pub fn set_incomplete(&self) -> io::Result<()> {
        set_incomplete(&self.path)
    }

    pub fn set_complete(&self) -> io::Result<()> {
        private().create(true).open(self.path.join(COMPLETE)).map(drop)
    }

    /// Adds the turns that have ended since; returns where the file ends now. Where it ended after the last call need not be
    /// looked for, and pieces that were just seen need not be read again. If events were changed that are in the file
    /// already, from this one on, all is written anew.
    pub fn append(
        &self,
        storage: &dyn Storage,
        lane: &LaneKey,
        known: Option<Position>,
        seen: &[Seen<'_>],
        redacted: Option<u64>,
    ) -> Result<Position, TranscriptError> {
        let path = self.path_of(lane);
        let mut file = private().create(true).open(&path)?;
        let length = file.metadata()?.len();
        let position = end_of(storage, lane, &mut file, known)?;
        if redacted.is_some_and(|first| first <= position.seq) {
            return self.rewrite(storage, lane);
        }
        if length != position.length {
            file.set_len(position.length)?;
        }
        file.seek(SeekFrom::Start(position.length))?;
        let position = self.write(storage, lane, position, seen, file)?;
        if position.length == 0 {
            // No turn has ended yet.
            fs::remove_file(&path)?;
        }
        Ok(position)
    }

    /// Takes out turns that are gone from the journal, up to a piece that begins with this number. Mostly those are its
    /// oldest: then the rest is copied as it is, and goes on.
    pub fn shorten(
        &self,
        storage: &dyn Storage,
        lane: &LaneKey,
        known: Option<Position>,
        last_gone: u64,
    ) -> Result<Position, TranscriptError> {
        let first = first_piece(storage, lane)?;
        if first.is_some_and(|first| last_gone < first)
            && let Some(position) = self.copy_rest(storage, lane, known)?
        {
            return self.append(storage, lane, Some(position), &[], None);
        }
        self.rewrite(storage, lane)
    }

    /// Begins the file with the first turn that the journal has, and copies what follows. None if the file does not have that
    /// turn as it would be written now.
    fn copy_rest(
        &self,
        storage: &dyn Storage,
        lane: &LaneKey,
        known: Option<Position>,
    ) -> Result<Option<Position>, TranscriptError> {
        let Some((turn, text)) = self.first_turn(storage, lane)? else { return Ok(None) };
        let path = self.path_of(lane);
        let Some(mut file) = if_there(private().open(&path))? else { return Ok(None) };
        let Position { seq, length } = end_of(storage, lane, &mut file, known)?;
        let Some(start) = start_of(&mut file, &turn, &text)? else { return Ok(None) };
        if start > 0 {
            let new = beside(&path);
            file.seek(SeekFrom::Start(start))?;
            io::copy(&mut file.take(length - start), &mut create(&new)?)?;
            fs::rename(&new, &path)?;
        }
        Ok(Some(Position { seq, length: length - start }))
    }

    /// The turn that ends first in the journal, with its lines.
    fn first_turn(
        &self,
        storage: &dyn Storage,
        lane: &LaneKey,
    ) -> Result<Option<(TurnId, String)>, StorageError> {
        let (mut lines, mut first) = (Writer::new(lane), None);
        sessions::journal(storage, lane, (0, u64::MAX), Order::Rising, &mut |piece| {
            for event in piece {
                let ended = ends_turn(&event).then(|| event.turn.clone());
                lines.push(event);
                if let Some(turn) = ended {
                    first = Some((turn, self.secrets.scrub_known(&lines.take())));
                    return ControlFlow::Break(());
                }
            }
            ControlFlow::Continue(())
        })?;
        Ok(first)
    }

    /// Writes all turns anew, as the journal has them now. Without any the file goes.
    pub fn rewrite(
        &self,
        storage: &dyn Storage,
        lane: &LaneKey,
    ) -> Result<Position, TranscriptError> {
        // That takes no room on a full disk.
        if first_piece(storage, lane)?.is_none() {
            remove(&self.path, lane)?;
            return Ok(Position::default());
        }
        let path = self.path_of(lane);
        let new = beside(&path);
        let position = self.write(storage, lane, Position::default(), &[], create(&new)?)?;
        if position.length > 0 {
            fs::rename(&new, &path)?;
            return Ok(position);
        }
        remove(&self.path, lane)?;
        Ok(position)
    }

    /// Sessions that have a file and no journal, among all but those that are known to have one. A file that does not say
    /// whose it is stays.
    pub fn orphans(
        &self,
        storage: &dyn Storage,
        known: &[LaneKey],
    ) -> Result<Vec<LaneKey>, TranscriptError> {
        let known: HashSet<String> = known.iter().map(lines::file_name).collect();
        let mut orphans = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if known.contains(&name) || !name.ends_with(".jsonl") {
                continue;
            }
            let text = fs::read(entry.path())?;
            if let Some(lane) = lane_of(&String::from_utf8_lossy(&text))
                && first_piece(storage, &lane)?.is_none()
            {
                orphans.push(lane);
            }
        }
        Ok(orphans)
    }

    fn path_of(&self, lane: &LaneKey) -> PathBuf {
        self.path.join(lines::file_name(lane))
    }

    /// Writes the turns that have ended behind a position, and returns the new one.
    fn write(
        &self,
        storage: &dyn Storage,
        lane: &LaneKey,
        mut position: Position,
        seen: &[Seen<'_>],
        file: File,
    ) -> Result<Position, TranscriptError> {
        let mut out = BufWriter::new(file);
        let mut lines = Writer::new(lane);
        let mut written = Ok(());
        let (next, range) = (joined(seen, position.seq + 1), (position.seq, u64::MAX));
        let mut write = |piece: Vec<HistoryEvent>| {
            for event in piece {
                let (seq, ends) = (event.seq, ends_turn(&event));
                lines.push(event);
                if ends {
                    let text = self.secrets.scrub_known(&lines.take());
                    written = out.write_all(text.as_bytes());
                    position = Position { seq, length: position.length + text.len() as u64 };
                }
            }
            if written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        };
        match next {
            // Why it broke off is told below.
            Some(pieces) => _ = pieces.into_iter().try_for_each(write),
            None => sessions::journal(storage, lane, range, Order::Rising, &mut write)?,
        }
        written?;
        out.flush()?;
        Ok(position)
    }
}

/// Pieces of a journal that follow one another from this number on; none if they do not.
fn joined(seen: &[Seen<'_>], mut next: u64) -> Option<Vec<Vec<HistoryEvent>>> {
    let mut pieces = Vec::with_capacity(seen.len());
    for (key, value) in seen {
        let Piece(events) = decode(key, value).ok()?;
        let (_, first) = parse::<Piece<'_>>(key)?;
        let last = events.last()?.seq;
        if first != next {
            return None;
        }
        next = last + 1;
        pieces.push(events.into_owned());
    }
    (!pieces.is_empty()).then_some(pieces)
}

/// Removes the file of a session from a folder, if it has one. Blocks.
pub fn remove(folder: &Path, lane: &LaneKey) -> io::Result<()> {
    let path = folder.join(lines::file_name(lane));
    for path in [&path, &beside(&path)] {
        if_there(fs::remove_file(path))?;
    }
    Ok(())
}

/// Where the journal of a session begins; none if it has none.
fn first_piece(storage: &dyn Storage, lane: &LaneKey) -> Result<Option<u64>, StorageError> {
    let key = Range::<Piece<'_>>::under(&(lane,)).first_key(storage, Order::Rising)?;
    Ok(key.and_then(|key| parse::<Piece<'_>>(&key)).map(|(_, first)| first))
}

/// The session that a file is of.
pub(super) fn lane_of(text: &str) -> Option<LaneKey> {
    let line = text.lines().find_map(|line| serde_json::from_str(line).ok())?;
    let (Line::History(MessageLine { session_id, .. }) | Line::Meta(FactLine { session_id, .. })) =
        line;
    let (lane, generation) = Lane::of_session(&session_id)?;
    Some(LaneKey { lane, generation })
}

/// The same of a folder whose store was changed without it.
pub fn set_incomplete(folder: &Path) -> io::Result<()> {
    if_there(fs::remove_file(folder.join(COMPLETE))).map(drop)
}

fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    options
}

fn create(path: &Path) -> io::Result<File> {
    private().create(true).truncate(true).open(path)
}

fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(NEW);
    name.into()
}

fn ends_turn(event: &HistoryEvent) -> bool {
    matches!(event.fact, Fact::TurnEnd { .. })
}

/// Where the last turn of a file ends, in the file and in the journal. If it has changed since that was known, it is looked
/// for.
fn end_of(
    storage: &dyn Storage,
    lane: &LaneKey,
    file: &mut File,
    known: Option<Position>,
) -> Result<Position, TranscriptError> {
    let length = file.metadata()?.len();
    if let Some(known) = known.filter(|known| known.length == length) {
        return Ok(known);
    }
    let (length, last) = last_turn(file)?;
    let seq = last.map_or(Ok(0), |last| place_of(storage, lane, &last))?;
    Ok(Position { seq, length })
}

/// Where the lines of a turn begin in a file, if between the turn before it and its end there are these lines alone.
fn start_of(file: &mut File, turn: &TurnId, text: &str) -> io::Result<Option<u64>> {
    file.seek(SeekFrom::Start(0))?;
    let mut file = BufReader::new(file);
    let (mut start, mut lines) = (0, Vec::new());
    loop {
        let line = lines.len();
        if file.read_until(b'\n', &mut lines)? == 0 {
            return Ok(None);
        }
        let line = &lines[line..];
        let ended = line.starts_with(META).then(|| turn_of(line)).flatten();
        if let Some(ended) = ended {
            if ended.id == *turn {
                return Ok((lines == text.as_bytes()).then_some(start));
            }
            start += lines.len() as u64;
            lines.clear();
        }
    }
}

/// Where the last turn of a file ends, and which that is.
fn last_turn(file: &mut File) -> io::Result<(u64, Option<LastTurn>)> {
    let total = file.seek(SeekFrom::End(0))?;
    let mut length = TAIL;
    loop {
        let start = total.saturating_sub(length);
        file.seek(SeekFrom::Start(start))?;
        let mut tail = Vec::new();
        Read::by_ref(file).take(total - start).read_to_end(&mut tail)?;
        let mut lines = tail.split_inclusive(|byte| *byte == b'\n');
        // What a part of a file begins with may be the end of a line.
        if start > 0 {
            lines.next();
        }
        let mut end = total;
        for line in lines.rev() {
            if let Some(last) = line.strip_suffix(b"\n").and_then(turn_of) {
                return Ok((end, Some(last)));
            }
            end -= line.len() as u64;
        }
        if start == 0 {
            return Ok((0, None));
        }
        length *= 4;
    }
}

/// The turn whose end a line tells.
fn turn_of(line: &[u8]) -> Option<LastTurn> {
    match serde_json::from_slice(line).ok()? {
        Line::Meta(fact) => {
            let at = Timestamp(fact.timestamp);
            fact.turn().map(|turn| LastTurn { id: turn.id, at })
        }
        Line::History(_) => None,
    }
}

/// The last event of a session that is in its file. A store that was restored may not know the turn that the file ends
/// with: then all that is not newer is taken to be there.
fn place_of(storage: &dyn Storage, lane: &LaneKey, last: &LastTurn) -> Result<u64, StorageError> {
    let (mut found, mut older) = (None, None);
    sessions::journal(storage, lane, (0, u64::MAX), Order::Falling, &mut |piece| {
        for event in piece.into_iter().rev() {
            if ends_turn(&event) && event.turn == last.id {
                found = Some(event.seq);
                return ControlFlow::Break(());
            }
            if event.timestamp <= last.at {
                older = older.or(Some(event.seq));
            }
            if event.timestamp + CLOCK_SLACK < last.at {
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    })?;
    Ok(found.or(older).unwrap_or_default())
}

#[cfg(test)]
mod tests;
