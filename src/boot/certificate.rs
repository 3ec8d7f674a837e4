//! The certificate that connections are encrypted with. It is read again while the service runs.

use std::{fmt, sync::Arc};

use parking_lot::RwLock;
use rustls::{
    ServerConfig,
    crypto::{CryptoProvider, ring},
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};

use super::error::{ServiceError, machine};
use crate::settings::{config::Tls, problem::Problem};

/// The certificate and key that count now.
pub(super) struct Certificate {
    files: Tls,
    provider: Arc<CryptoProvider>,
    now: RwLock<Arc<CertifiedKey>>,
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificate").field("files", &self.files).finish_non_exhaustive()
    }
}

impl Certificate {
    pub(super) fn open(files: &Tls) -> Result<Arc<Self>, ServiceError> {
        let provider = Arc::new(ring::default_provider());
        let now = read(files, &provider).map_err(ServiceError::Certificate)?;
        Ok(Arc::new(Self { files: files.clone(), provider, now: RwLock::new(Arc::new(now)) }))
    }

    /// Reads the files again: connections from now on get what they say. If that cannot be used, those
    /// get what counted before. Blocks.
    pub(super) fn read_again(&self) -> Result<(), Problem> {
        let fresh = Arc::new(read(&self.files, &self.provider)?);
        *self.now.write() = fresh;
        Ok(())
    }

    pub(super) fn settings(self: Arc<Self>) -> Result<ServerConfig, ServiceError> {
        Ok(ServerConfig::builder_with_provider(self.provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| machine("TLS cannot be set up", error))?
            .with_no_client_auth()
            .with_cert_resolver(self))
    }
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.now.read().clone())
    }
}

fn read(Tls { cert, key }: &Tls, provider: &CryptoProvider) -> Result<CertifiedKey, Problem> {
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(cert)
        .and_then(Iterator::collect)
        .map_err(|error| Problem::of_file(cert, error.to_string()))?;
    if chain.is_empty() {
        return Err(Problem::of_file(cert, "holds no certificate"));
    }
    let key = PrivateKeyDer::from_pem_file(key)
        .map_err(|error| Problem::of_file(key, error.to_string()))?;
    CertifiedKey::from_der(chain, key, provider)
        .map_err(|error| Problem::of_file(cert, error.to_string()))
}
