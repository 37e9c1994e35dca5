"""scikit-learn's estimators on bytes, with its parameters and attributes: neighbors, k-means and principal components;
and predictions of perceptrons in int8.

    neighbors       NearestNeighbors, KNeighborsClassifier, KNeighborsRegressor, KNeighborsTransformer: int8blas.Index
    cluster         KMeans, MiniBatchKMeans: exact distances, and exact sums of each cluster's rows
    decomposition   PCA: the eigenvectors of an exact covariance
    perceptron      quantize_estimator: predictions of MLPClassifier and MLPRegressor by InnerProduct
    coding          from samples to bytes: uint8 and int8 unchanged, floats in int8 steps

Only this room imports scikit-learn, and no other room imports this one.
"""

from int8blas.sklearn.cluster import KMeans, MiniBatchKMeans
from int8blas.sklearn.decomposition import PCA
from int8blas.sklearn.neighbors import (
    KNeighborsClassifier,
    KNeighborsRegressor,
    KNeighborsTransformer,
    NearestNeighbors,
)
from int8blas.sklearn.perceptron import quantize_estimator

__all__ = [
    "PCA",
    "KMeans",
    "KNeighborsClassifier",
    "KNeighborsRegressor",
    "KNeighborsTransformer",
    "MiniBatchKMeans",
    "NearestNeighbors",
    "quantize_estimator",
]
