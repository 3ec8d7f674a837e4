//! The program's file in memory: the pages that only the start used are let go.
//!
//! Most of what a service at rest takes is its own code and what that reads, and most of it was needed once: relocations,
//! command line, settings, recovery. The system would give such pages up only when memory is short. A page that is used after
//! all is mapped again from the file.

use std::{fs, io, time::Duration};

use hivewright_actors::blocking;

/// The start has settled by then.
const SETTLED_AFTER: Duration = Duration::from_secs(1);

pub(super) async fn let_go() {
    tokio::time::sleep(SETTLED_AFTER).await;
    let let_go = || unwritten().map(|ranges| ranges.into_iter().for_each(unmap));
    if let Ok(Err(error)) = blocking::run(let_go).await {
        tracing::debug!(%error, "pages of the start stay in memory");
    }
}

/// Where the parts of the program that are never written are mapped: from, to.
fn unwritten() -> io::Result<Vec<(usize, usize)>> {
    let program = fs::read_link("/proc/self/exe")?;
    let maps = fs::read_to_string("/proc/self/maps")?;
    Ok(maps.lines().filter_map(|line| range(line, program.to_str()?)).collect())
}

fn range(line: &str, program: &str) -> Option<(usize, usize)> {
    let (range, rest) = line.split_once(' ')?;
    // Beside the code that is the beginning of the file. Of what comes behind, some was written by the loader.
    let is_unwritten = rest.starts_with("r-xp ") || rest.starts_with("r--p 00000000 ");
    if !is_unwritten || !rest.ends_with(&format!(" {program}")) {
        return None;
    }
    let (from, to) = range.split_once('-')?;
    let address = |text| usize::from_str_radix(text, 16).ok();
    Some((address(from)?, address(to)?))
}

#[expect(unsafe_code, reason = "memory is given back by its address")]
fn unmap((from, to): (usize, usize)) {
    // SAFETY: it is mapped from the file and never written, so what is mapped again is what was there.
    unsafe { libc::madvise(from as *mut libc::c_void, to - from, libc::MADV_DONTNEED) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_never_written_is_found_and_can_be_let_go() {
        let here = what_is_never_written_is_found_and_can_be_let_go as *const () as usize;
        let ranges = unwritten().unwrap();

        assert!(ranges.iter().any(|(from, to)| (*from..*to).contains(&here)), "{ranges:x?}");
        // Of a test that failed before, the file may be mapped once more, for its names.
        assert!(ranges.len() >= 2, "{ranges:x?}");
        // It goes on from here.
        ranges.into_iter().for_each(unmap);
    }

    #[test]
    fn only_what_is_never_written_is_found() {
        let line = "55d0-55e0 r-xp 00a05000 fe:00 5310694                    /bin/hivewright";
        assert_eq!(range(line, "/bin/hivewright"), Some((0x55d0, 0x55e0)));
        assert_eq!(range(line, "/bin/other"), None);
        assert_eq!(range(&line.replace("r-xp", "r--p"), "/bin/hivewright"), None);
        let beginning = line.replace("r-xp 00a05000", "r--p 00000000");
        assert_eq!(range(&beginning, "/bin/hivewright"), Some((0x55d0, 0x55e0)));
    }
}
