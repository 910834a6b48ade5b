"""Libraries that are products of lists of building blocks, letters and conditions, and are never written down."""

from .product import ProductLibrary as ProductLibrary
from .product import open_product as open_product
