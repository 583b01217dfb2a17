//! Why a file has no Tenant that can be converted.

/// The version of the Tenants that are converted.
pub(super) const API: &str = "minio.min.io/v2";

/// Why a file cannot be converted.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTenant {
    /// The file has none of this version.
    #[error("the file holds no Tenant of {API}")]
    NoTenant,
    /// There are several.
    #[error("the file holds {count} Tenants: convert one at a time")]
    Several {
        /// How many.
        count: usize,
    },
    /// No StorageCluster can have this name.
    #[error(
        "a StorageCluster cannot be called {name:?}: give --name with 1 to 30 lower-case letters, digits and '-', beginning with a letter"
    )]
    Name {
        /// The name.
        name: String,
    },
    /// A field has another form.
    #[error("{path} must be {expected}")]
    Field {
        /// The field.
        path: String,
        /// The expected form.
        expected: &'static str,
    },
    /// A number of nodes or volumes is not there, or beyond what there may be.
    #[error("{path} must be 1 to {max}")]
    Count {
        /// The field.
        path: String,
        /// The most.
        max: i64,
    },
    /// The operator has no erasure sets for this number of volumes.
    #[error(
        "{path}: no set of 8 to 16 volumes spreads {nodes} x {volumes} evenly over the nodes: choose other servers or volumesPerServer"
    )]
    Shape {
        /// The pool.
        path: String,
        /// The nodes of the pool.
        nodes: i64,
        /// Volumes of each.
        volumes: i64,
    },
}
