//! Rendered forms: what engines write of something that stays the same, kept with it.

use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::value::RawValue;

/// JSON that was made of a value which never changes, one for each wire format.
///
/// The largest parts of a request are the same from call to call. Each is written once for a format and
/// then put into the bodies as it is.
#[derive(Debug, Default)]
pub struct Rendered(Mutex<Vec<(&'static str, Arc<RawValue>)>>);

impl Rendered {
    /// The form for a wire format, made when it is first asked for.
    pub fn get(
        &self,
        format: &'static str,
        make: impl FnOnce() -> serde_json::Result<Box<RawValue>>,
    ) -> serde_json::Result<Arc<RawValue>> {
        let mut known = self.0.lock();
        if let Some((_, known)) = known.iter().find(|(known, _)| *known == format) {
            return Ok(known.clone());
        }
        let made: Arc<RawValue> = make()?.into();
        known.push((format, made.clone()));
        Ok(made)
    }
}
