"""Estimators on bytes with the parameters and attributes of scikit-learn's estimators.

    neighbors       NearestNeighbors, KNeighborsClassifier, KNeighborsRegressor and KNeighborsTransformer, which use
                    int8blas.Index
    cluster         KMeans and MiniBatchKMeans, with exact distances and exact sums of each cluster's rows
    decomposition   PCA, from the eigenvectors of an exact covariance
    perceptron      quantize_estimator: predictions of MLPClassifier and MLPRegressor by InnerProduct
    coding          the conversion of samples to bytes: uint8 and int8 stay unchanged, floats are quantized to int8

Only this package imports scikit-learn, and no other package of int8blas imports this package.
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
