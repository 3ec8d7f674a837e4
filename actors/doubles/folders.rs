//! Folders that are always as they should be.

use futures_util::future::BoxFuture;

use crate::{
    clock::Timestamp,
    ids::{TeamKey, TeamName},
    org::folders::{FolderError, FolderPlan, Folders},
};

pub(crate) struct NoFolders;

impl Folders for NoFolders {
    fn make(&self, _: TeamKey, _: FolderPlan) -> BoxFuture<'static, Result<(), FolderError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn keep(&self, _: TeamKey) -> BoxFuture<'static, ()> {
        Box::pin(std::future::ready(()))
    }

    fn unmake(&self, _: TeamKey) -> BoxFuture<'static, ()> {
        Box::pin(std::future::ready(()))
    }

    fn settle(&self, _: Vec<TeamName>) -> BoxFuture<'static, ()> {
        Box::pin(std::future::ready(()))
    }

    fn bury(
        &self,
        _: TeamKey,
        _: Timestamp,
    ) -> BoxFuture<'static, Result<Option<String>, FolderError>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    fn describe(&self, _: TeamName, _: String) -> BoxFuture<'static, Result<(), FolderError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn is_furnished(&self, _: TeamName) -> BoxFuture<'static, bool> {
        Box::pin(std::future::ready(true))
    }
}
