from django.urls import URLPattern, URLResolver, path

from panel.audit import views

app_name = "audit"
urlpatterns: list[URLPattern | URLResolver] = [
    path("", views.entry_list, name="list"),
    path("export.csv", views.export, name="export"),
    path("<int:pk>/", views.entry_detail, name="detail"),
]
